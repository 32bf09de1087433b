"""Give each model-local function one set of operand types, so that its body can be narrowed.

Before::

    a = local.act (x)              # x is float32
    b = local.act (d)              # d is float64

After::

    a = local.act (x)
    b = local.act_double (d)       # a copy of local.act

A function that all calls hand the same types stays as it is. Keeps every value bit for bit.
"""

import onnx_ir as ir

from onnxcast.graph.schemas import type_string
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_graphs, nested_graphs

__all__ = ["SpecialiseFunctionsPass"]

_Key = tuple[ir.OperatorIdentifier, tuple[str, ...]]


class SpecialiseFunctionsPass(ir.passes.InPlacePass):
    """Copies functions until no two calls of one differ in operand types.

    Attributes:
        types: Those of the model after the last call, in functions too, if it has functions.
    """

    types: ElementTypes | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Visit the main graph's calls, then those inside the functions that they reach."""
        modified, self.types = False, None
        copies: dict[_Key, ir.Function] = {}
        wave = list(main_graphs(model)) if model.functions else []
        while wave:
            types = self.types or ElementTypes(model, in_functions=True)
            reached: list[ir.Graph] = []
            renamed = False
            for node in (node for graph in wave for node in graph):
                function = model.functions.get(node.op_identifier())
                if function is None:
                    continue
                key = (node.op_identifier(), tuple(_type_name(v, types) for v in node.inputs))
                if key not in copies:
                    copies[key] = _first_or_copy(model, function, key, copies)
                    reached.extend(nested_graphs(copies[key].graph))
                renamed |= node.op_type != copies[key].name
                node.op_type = copies[key].name
            wave = reached
            modified |= renamed
            self.types = None if renamed else types
        return ir.passes.PassResult(model, modified)


def _type_name(value: ir.Value | None, types: ElementTypes) -> str:
    type_ = None if value is None else types.of(value)
    return "" if type_ is None else type_string(type_)


def _first_or_copy(
    model: ir.Model, function: ir.Function, key: _Key, copies: dict[_Key, ir.Function]
) -> ir.Function:
    """`function` for the first types that it is called with, a copy for each others."""
    if not any(identifier == key[0] for identifier, _ in copies):
        return function
    copy = function.clone()
    inner = "_".join(name.removeprefix("tensor(").removesuffix(")") for name in key[1])
    wanted, count = f"{function.name}_{inner}", 0
    copy.name = wanted
    while copy.identifier() in model.functions:
        count += 1
        copy.name = f"{wanted}_{count}"
    model.functions[copy.identifier()] = copy
    return copy
