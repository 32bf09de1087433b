"""Give each model-local function one set of operand types, so that its body can be narrowed.

Before::

    a = local.act (x)              # x is float32
    b = local.act (d)              # d is float64

After::

    a = local.act (x)
    b = local.act_double (d)       # a copy of local.act

A function that all calls hand the same types stays as it is. Functions import the ONNX opset of the
model where their ops are the same at both, as a Cast in them might not be. Keeps every value bit
for bit.
"""

import onnx_ir as ir

from onnxcast.graph.opsets import align_functions
from onnxcast.graph.schemas import type_string
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_nodes, nested_scopes

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
        modified, self.types = align_functions(model), None
        copies: dict[_Key, ir.Function] = {}
        met: set[ir.OperatorIdentifier] = set()
        wave = list(main_nodes(model)) if model.functions else []
        while wave:
            types = self.types or ElementTypes(model, in_functions=True)
            reached: list[ir.Node] = []
            renamed = False
            for node in wave:
                called = node.op_identifier()
                function = model.functions.get(called)
                if function is None:
                    continue
                key = (called, tuple(_type_name(v, types) for v in node.inputs))
                if key not in copies:
                    copies[key] = _copy(model, function, key[1]) if called in met else function
                    met.add(called)
                    for _, nodes in nested_scopes(copies[key].graph):
                        reached.extend(nodes)
                renamed |= node.op_type != copies[key].name
                node.op_type = copies[key].name
            wave = reached
            modified |= renamed
            self.types = None if renamed else types
        return ir.passes.PassResult(model, modified)


def _type_name(value: ir.Value | None, types: ElementTypes) -> str:
    type_ = None if value is None else types.of(value)
    return "" if type_ is None else type_string(type_)


def _copy(model: ir.Model, function: ir.Function, types: tuple[str, ...]) -> ir.Function:
    """A copy of `function` for operands of other `types`, under a name that is free."""
    copy = function.clone()
    inner = "_".join(name.removeprefix("tensor(").removesuffix(")") for name in types)
    wanted, count = f"{function.name}_{inner}", 0
    copy.name = wanted
    while copy.identifier() in model.functions:
        count += 1
        copy.name = f"{wanted}_{count}"
    model.functions[copy.identifier()] = copy
    return copy
