"""Write constants and Casts in their one plain form, so that later passes know only that.

Before::

    a = Constant <value_float = 2.0> ()
    b = CastLike (x, a)

After::

    a = Constant <value = float {2.0}> ()
    b = Cast <to = 1> (x)

Keeps every value bit for bit. A declared type that is not the value's is put right, but for a graph
output's: such a model is refused. A CastLike whose second operand has no known type (in a function
body) stays.
"""

import numpy as np
import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.graph.schemas import type_string
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import scopes

__all__ = ["NormalisePass"]

_DTYPES = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


_REWRITTEN = frozenset({"Constant", "CastLike"})


class NormalisePass(ir.passes.InPlacePass):
    """Constants hold tensors; Casts name their type; declared types are true.

    Attributes:
        types: Of the model that it is called with, if they are known, but for those in functions;
            for one call.
        types_after: Of what the last call left, if it changed nothing; else None.
    """

    types: ElementTypes | None = None
    types_after: ElementTypes | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite every scope of `model`, function bodies included.

        Raises:
            InputError: A graph output is declared to be of a type that it is not.
        """
        types, self.types = self.types or ElementTypes(model), None
        _check_outputs(model, types)
        modified = False
        for graph, nodes in scopes(model):
            for value in graph.initializers.values():
                modified |= _declare_initializer(value)
            for node in nodes:
                if node.op_type in _REWRITTEN and node.domain == "":
                    is_constant = node.op_type == "Constant"
                    modified |= _hold_tensor(node) if is_constant else _name_type(node, types)
                modified |= _declare(node, types)
        self.types_after = None if modified else types
        return ir.passes.PassResult(model, modified)


def _check_outputs(model: ir.Model, types: ElementTypes) -> None:
    for value in model.graph.outputs:
        known, declared = types.of(value), value.type
        # Whether a value is optional follows from more than one branch.
        if known is None or declared is None or isinstance(declared, ir.OptionalType):
            continue
        if type_string(declared) != type_string(known) and not isinstance(known, ir.OptionalType):
            raise InputError(
                f"output {value.name!r} is declared {type_string(declared)}, it is "
                f"{type_string(known)}: declare it so, or cast it"
            )


def _declare_initializer(value: ir.Value) -> bool:
    """Let what is declared for an initializer be its tensor's type and shape."""
    tensor = value.const_value
    if tensor is None or value.is_graph_input() or value.is_graph_output():
        return False
    modified = False
    declared = value.type
    if declared is not None and (
        type(declared) is not ir.TensorType or declared.dtype != tensor.dtype
    ):
        value.type = ir.TensorType(tensor.dtype)
        modified = True
    shape = value.shape
    if shape is not None and shape is not tensor.shape and shape != tensor.shape:
        value.shape = ir.Shape(tensor.shape.numpy())
        modified = True
    return modified


def _declare(node: ir.Node, types: ElementTypes) -> bool:
    """Correct what another tool left behind when it changed a type."""
    modified = False
    for value in node.outputs:
        declared = value.type
        known = None if declared is None else types.of(value)
        if known is None or declared is None or value.is_graph_output():
            continue
        if declared.dtype != known.dtype:
            value.type = known
            modified = True
    return modified


def _hold_tensor(node: ir.Node) -> bool:
    for name, dtype in _DTYPES.items():
        attribute = node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            continue
        del node.attributes[name]
        tensor = ir.tensor(np.array(attribute.value, dtype=dtype), name=node.outputs[0].name)
        node.attributes["value"] = ir.AttrTensor("value", tensor)
        return True
    return False


def _name_type(node: ir.Node, types: ElementTypes) -> bool:
    dtype = types.dtype(node.inputs[1])
    if dtype is None:
        return False
    node.op_type = "Cast"
    node.resize_inputs(1)
    node.attributes["to"] = ir.AttrInt64("to", dtype)
    return True
