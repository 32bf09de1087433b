"""Placement: put Casts so that a plan holds, one per value, format and scope.

A value that becomes narrow is cast up for its wide readers; a wide value is cast down for its
narrow readers, right after its producer. One-element constants are rewritten in the narrow type
instead (as a new constant if others read them). Graph outputs keep their names and types.
"""

import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.formats import Format
from onnxcast.graph.edit import Casts, constant_of, move_outputs, retype
from onnxcast.graph.opsets import import_onnx
from onnxcast.planning.plan import Plan

__all__ = ["carry_out"]

_FLOAT = ir.DataType.FLOAT


def carry_out(model: ir.Model, plan: Plan) -> list[Diagnostic]:
    """Change `model` so that `plan` holds; return a finding per Cast added."""
    placer = _Placer(model)
    for group, format_ in plan.narrow():
        import_onnx(model, _dtype(format_))
        for value in group.result_values():
            placer.narrow(value, format_)
    for group, format_ in plan.narrow():
        for index in group.operands:
            placer.read_narrow(group.node, index, format_)
    placer.read_wide()
    return [
        Diagnostic(
            code=Code.CAST_ADDED,
            message=f"{node.inputs[0].name} cast to {node.outputs[0].name}",
            node=node.name or "",
            value=node.outputs[0].name or "",
        )
        for node in placer.casts.added
        if node.inputs[0] is not None
    ]


def _dtype(format_: Format) -> ir.DataType:
    assert format_.dtype is not None, "a format without an element type has no Cast"
    return format_.dtype


class _Placer:
    def __init__(self, model: ir.Model) -> None:
        self.casts = Casts(model)
        self._model = model
        self._narrow: dict[ir.Value, ir.DataType] = {}
        self._satisfied: set[tuple[ir.Node, int]] = set()
        self._constants: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def narrow(self, value: ir.Value, format_: Format) -> None:
        """Note that `value`, a result, is produced in `format_` now."""
        self._narrow[value] = _dtype(format_)

    def read_narrow(self, node: ir.Node, index: int, format_: Format) -> None:
        """Let operand `index` of `node` be read in `format_`."""
        value, dtype = node.inputs[index], _dtype(format_)
        assert value is not None
        self._satisfied.add((node, index))
        if self._narrow.get(value, _FLOAT) == dtype:
            return
        constant = self._constant(value, dtype)
        node.replace_input_with(index, constant or self.casts.of(value, dtype))

    def read_wide(self) -> None:
        """Cast narrow values up for every reader that stays wide, and for graph outputs."""
        moves: dict[ir.Value, ir.Value] = {}
        for value, dtype in self._narrow.items():
            readers = [use for use in value.uses() if tuple(use) not in self._satisfied]
            output = value.is_graph_output()
            retype(value, dtype)
            if not (readers or output):
                continue
            wide = self.casts.of(value, _FLOAT)
            wide.type = ir.TensorType(_FLOAT) if value.type is not None else None
            for node, index in readers:
                if node is not wide.producer():
                    node.replace_input_with(index, wide)
            if output:
                moves[value] = wide
        move_outputs(moves, self.casts.names)

    def _constant(self, value: ir.Value, dtype: ir.DataType) -> ir.Value | None:
        """A one-element constant in the narrow type; None if `value` is anything else."""
        tensor = constant_of(value)
        if tensor is None or tensor.size != 1 or tensor.dtype != _FLOAT:
            return None
        key = (value, dtype)
        if key not in self._constants:
            array = formats.to_storage(tensor.numpy(), formats.of(dtype))
            narrow = self.casts.names.fresh(f"{value.name}_{formats.of(dtype).name}")
            self._constants[key] = self._new_constant(
                value, ir.tensor(array, dtype=dtype, name=narrow)
            )
        return self._constants[key]

    def _new_constant(self, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
        graph, producer = value.graph, value.producer()
        assert graph is not None
        if producer is None and self._model.ir_version >= 4:
            constant = ir.Value(name=tensor.name, shape=value.shape, const_value=tensor)
            constant.type = ir.TensorType(tensor.dtype)
            graph.register_initializer(constant)
            return constant
        name = self.casts.names.fresh(f"{tensor.name}_constant")
        node = ir.node("Constant", [], {"value": tensor}, name=name)
        node.outputs[0].name = tensor.name
        if producer is None:
            graph.insert_before(graph[0], node)
        else:
            graph.insert_after(producer, node)
        return node.outputs[0]
