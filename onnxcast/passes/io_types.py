"""Declare graph inputs and outputs in the types that the user lets them have.

Before::

    agraph (float[4] x) => (float[4] y) {
        y = Relu (x)
    }

After (float16)::

    agraph (float16[4] x) => (float16[4] y) {
        x_float32 = Cast <to = 1> (x)
        y_inner = Relu (x_float32)
        y = Cast <to = 10> (y_inner)
    }

Keeps names, order and shapes. What a narrow op gives or reads needs no Cast: folding sees to that.
Where the target's range is smaller than the type's, outputs are clipped to it first. An input whose
value may be an initializer's keeps its type.
"""

import onnx_ir as ir

from onnxcast.formats import Format, of
from onnxcast.graph.edit import Casts, move_outputs
from onnxcast.graph.opsets import import_onnx
from onnxcast.graph.types import ElementTypes
from onnxcast.planning import Rounded
from onnxcast.policy import IoTypes
from onnxcast.targets import GENERIC, Target

__all__ = ["IoTypesPass"]

_FLOAT = ir.DataType.FLOAT


class IoTypesPass(ir.passes.InPlacePass):
    """Changes the element types of float32 graph inputs and outputs."""

    def __init__(self, io_types: IoTypes, target: Target = GENERIC) -> None:
        self._io_types = io_types
        self._target = target

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Visit the inputs and outputs of the main graph.

        Raises:
            InputError: A name that is no float32 graph input or output (with the nearest).
        """
        graph = model.graph
        inputs = [
            value for value in graph.inputs if _is_float(value) and not value.is_initializer()
        ]
        outputs = [value for value in graph.outputs if _is_float(value)]
        self._io_types.check(
            {value.name or "": _format(value) for value in (*graph.inputs, *graph.outputs)}
        )
        casts = Casts(model)
        modified = self._narrow_inputs(model, inputs, casts)
        modified |= self._narrow_outputs(model, outputs, casts)
        return ir.passes.PassResult(model, modified)

    def _narrow_inputs(self, model: ir.Model, inputs: list[ir.Value], casts: Casts) -> bool:
        modified = False
        for value in inputs:
            format_ = self._io_types.wanted(value.name or "")
            if format_ is None or value.is_graph_output():  # an output's name is not ours to move
                continue
            readers = value.uses()
            value.type = ir.TensorType(_dtype(model, format_))
            modified = True
            if readers:
                wide = casts.of(value, _FLOAT)
                wide.type = ir.TensorType(_FLOAT)
                for node, index in readers:
                    node.replace_input_with(index, wide)
        return modified

    def _narrow_outputs(self, model: ir.Model, outputs: list[ir.Value], casts: Casts) -> bool:
        moves: dict[ir.Value, ir.Value] = {}
        rounded = Rounded(casts, ElementTypes(model))
        for value in outputs:
            format_ = self._io_types.wanted(value.name or "")
            if format_ is None or value.is_graph_input() or value.is_initializer():
                continue
            dtype = _dtype(model, format_)
            narrow = rounded.low(value, self._target.realised(format_))
            narrow.type, narrow.shape = ir.TensorType(dtype), value.shape
            moves[value] = narrow
        move_outputs(moves, casts.names)
        return bool(moves)


def _format(value: ir.Value) -> Format | None:
    return of(value.type.dtype) if type(value.type) is ir.TensorType else None


def _is_float(value: ir.Value) -> bool:
    return type(value.type) is ir.TensorType and value.dtype == _FLOAT


def _dtype(model: ir.Model, format_: Format) -> ir.DataType:
    assert format_.dtype is not None
    import_onnx(model, format_.dtype)
    return format_.dtype
