"""Tensors of a file that tell their type and size without looking into it each time.

`onnx_ir` makes a new shape whenever it is asked for one: with tens of thousands of small constants
that takes longer than most passes.
"""

__all__ = ["StoredTensor", "hold_facts"]

import functools
import math

import onnx_ir as ir


class StoredTensor(ir.serde.TensorProtoTensor):
    """A tensor of a proto that does not change any more.

    Attributes:
        measured: What is known of its numbers (see `onnxcast.files.ranges`), if anything is.
    """

    measured: object = None

    @functools.cached_property
    def dtype(self) -> ir.DataType:  # type: ignore[override] # read-only, as in the base
        """The element type."""
        return super().dtype

    @functools.cached_property
    def shape(self) -> ir.Shape:  # type: ignore[override] # likewise
        """The shape, which is frozen."""
        return super().shape

    @functools.cached_property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.raw.dims)

    @functools.cached_property
    def nbytes(self) -> int:
        """The bytes that they take."""
        return super().nbytes


def hold_facts(graph: ir.Graph) -> None:
    """Let the initializers of `graph`, just read, be such tensors."""
    for value in graph.initializers.values():
        tensor, shape = value.const_value, value.shape
        if type(tensor) is ir.serde.TensorProtoTensor:
            stored = StoredTensor(tensor.raw)
            if shape is not None and shape.frozen and shape == tuple(tensor.raw.dims):
                stored.shape = shape
            value.const_value = stored
