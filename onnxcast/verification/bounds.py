"""What integers a model takes: how many rows an index may choose from, and what is a length."""

import onnx_ir as ir

from onnxcast.graph.edit import cast_target, constant_of
from onnxcast.policy import Meaning, has_meaning

__all__ = ["index_bound", "is_length"]

# Operands that choose, by op: which one, from which operand, along which attribute's axis.
_CHOOSING = {"Gather": (1, 0, 0), "GatherElements": (1, 0, 0)}

# Operands that say how long each sequence is, by op (ONNX operators.md).
_LENGTHS = {"LSTM": 4, "GRU": 4, "RNN": 4, "ReverseSequence": 1}


def index_bound(value: ir.Value) -> int | None:
    """The least number of rows that `value`, moved or cast or not, chooses from; None if none."""
    bounds = []
    for node, index in _uses(value):
        chooses, chosen, default = _CHOOSING.get(node.op_type, (None, 0, 0))
        if node.domain == "" and index == chooses:
            axis = node.attributes.get("axis")
            size = _size(node.inputs[chosen], default if axis is None else axis.as_int())
            bounds.extend([] if size is None else [size])
    return min(bounds, default=None)


def is_length(value: ir.Value) -> bool:
    """Whether `value` says how long sequences are, by what reads it or by its name."""
    read = any(node.domain == "" and _LENGTHS.get(node.op_type) == i for node, i in _uses(value))
    return read or "len" in (value.name or "").lower()


def _uses(value: ir.Value) -> list[tuple[ir.Node, int]]:
    """The uses of `value` and of what data movement and Casts make of it."""
    found: list[tuple[ir.Node, int]] = []
    pending, seen = [value], {value}
    while pending:
        for node, index in pending.pop().uses():
            found.append((node, index))
            if cast_target(node) is not None or (index == 0 and has_meaning(node, Meaning.CARRIER)):
                fresh = [output for output in node.outputs if output not in seen]
                pending.extend(fresh)
                seen.update(fresh)
    return found


def _size(value: ir.Value | None, axis: int) -> int | None:
    tensor = constant_of(value)
    shape = tensor.shape if tensor is not None else None if value is None else value.shape
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) and size > 0 else None
