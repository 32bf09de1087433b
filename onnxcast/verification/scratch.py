"""Copies of models for onnxruntime, without copies of weights that are gigabytes.

The large float32 weights of such a model are made graph inputs of its copy, and a file beside it
tells the worker where their numbers are, which it maps: they are never written again, nor packed
anew by a session, and the system may drop them from memory at any time.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import onnx_ir as ir

from onnxcast.files import NarrowedTensor, commit
from onnxcast.verification.mapping import Place, forget, tell

__all__ = ["is_large", "place", "stored_wide"]

_LARGE_MODEL = 2**30
_LARGE_TENSOR = 2**20


def stored_wide(tensor: ir.TensorProtocol | None) -> ir.ExternalTensor | None:
    """The large float32 tensor in a file that `tensor` is, or is rounded from, once."""
    if isinstance(tensor, NarrowedTensor):
        tensor = tensor.raw
    if not isinstance(tensor, ir.ExternalTensor) or tensor.dtype is not ir.DataType.FLOAT:
        return None
    return tensor if tensor.nbytes >= _LARGE_TENSOR else None


def is_large(model: ir.Model) -> bool:
    """Whether so many numbers of `model` are in files that they are better left there."""
    stored = (stored_wide(value.const_value) for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in stored if tensor is not None) >= _LARGE_MODEL


def place(model: ir.Model, path: pathlib.Path) -> None:
    """Write `model` to `path` for the worker, its large weights left where they are.

    Raises:
        InputError: External data cannot be read.
        RefusedError: The files cannot be written.
    """
    left = _left(model) if is_large(model) else {}
    forget(path)
    with _as_inputs(model.graph, left):
        commit(model, path)
    if left:
        tell(path, {value.name or "": _place(tensor) for value, tensor in left.items()})


def _place(tensor: ir.ExternalTensor) -> Place:
    return str(tensor.path), tensor.offset or 0, list(tensor.shape.numpy())


def _left(model: ir.Model) -> dict[ir.Value, ir.ExternalTensor]:
    return {
        value: tensor
        for value in model.graph.initializers.values()
        if (tensor := stored_wide(value.const_value)) is value.const_value and tensor is not None
    }


@contextmanager
def _as_inputs(graph: ir.Graph, left: dict[ir.Value, ir.ExternalTensor]) -> Iterator[None]:
    """Make initializers graph inputs for a while."""
    if not left:
        yield
        return
    initializers, inputs = list(graph.initializers.values()), list(graph.inputs)
    known = {value: (value.type, value.shape) for value in left}
    graph.initializers.clear()
    for value in initializers:
        if value not in left:
            graph.initializers[value.name or ""] = value
    for value, tensor in left.items():
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
    graph.inputs.extend(value for value in left if value not in inputs)
    try:
        yield
    finally:
        graph.inputs.clear()
        graph.inputs.extend(inputs)
        graph.initializers.clear()
        for value in initializers:
            graph.initializers[value.name or ""] = value
        for value, (type_, shape) in known.items():
            value.type, value.shape = type_, shape
