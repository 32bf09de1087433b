"""Weights of any size in bounded memory: read in chunks, measured, narrowed as they are written.

External data is read from its file, not mapped: pages of a mapping that were touched count as
memory of the process until the mapping goes.
"""

__all__ = ["CHUNK_BYTES", "NarrowedTensor", "WeightRange", "chunks", "weight_range", "write_bytes"]

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError

CHUNK_BYTES = 16 * 2**20
"""The most bytes of a source tensor that are held at once."""

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


class Sink(Protocol):
    """What bytes are written to: any binary file."""

    def write(self, data: memoryview | bytes, /) -> object:
        """Take all of `data`."""


class NarrowedTensor(ir.Tensor[ir.TensorProtocol]):
    """A view of a float tensor in a narrower format, rounded whenever it is read.

    Rounding is that of `onnxcast.formats.to_storage`: to nearest even, float8 saturates. Shape,
    doc string, metadata and, unless another is given, name are the source's; `raw` is the source.
    """

    def __init__(
        self, source: ir.TensorProtocol, dtype: ir.DataType, name: str | None = None
    ) -> None:
        """View `source`, float32 or float64, as `dtype`, a float format of whole bytes."""
        assert source.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE), source.dtype
        assert dtype.bitwidth % 8 == 0, dtype
        super().__init__(
            source,
            dtype,
            shape=ir.Shape(source.shape.numpy()),
            name=source.name if name is None else name,
            doc_string=source.doc_string,
            metadata_props=dict(source.metadata_props) or None,
        )

    def pieces(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the narrow elements in order, flat, in the storage dtype."""
        target = formats.of(self.dtype)
        for piece in chunks(self.raw):
            yield formats.to_storage(piece, target)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the whole tensor, narrowed, in the storage dtype."""
        whole = np.empty(self.size, self.dtype.numpy())
        at = 0
        for piece in self.pieces():
            whole[at : at + piece.size] = piece
            at += piece.size
        return whole.reshape(self.shape.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.numpy(), dtype)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.numpy().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def tobytes(self) -> bytes:
        """Return the bytes of the whole tensor as ONNX stores them."""
        return self.numpy().tobytes()

    def tofile(self, file: Sink) -> None:
        """Write the bytes chunk by chunk."""
        for piece in self.pieces():
            file.write(piece.view(np.uint8).data)

    def __repr__(self) -> str:
        return f"{self._repr_base()}(name={self.name!r}, source={type(self.raw).__name__})"


def chunks(tensor: ir.TensorProtocol) -> Iterator[npt.NDArray[Any]]:
    """Yield the elements of `tensor` in order, in flat pieces of at most `CHUNK_BYTES`.

    Args:
        tensor: A numeric tensor of whole-byte elements. Of an external one, no more than a piece
            is ever held.

    Raises:
        InputError: The external data cannot be read, or ends early.
    """
    if isinstance(tensor, NarrowedTensor):
        yield from tensor.pieces()
    elif isinstance(tensor, ir.ExternalTensor):
        yield from _from_file(tensor, tensor.dtype.numpy(), tensor.size)
    else:
        flat = tensor.numpy().reshape(-1)
        step = CHUNK_BYTES // flat.itemsize
        for start in range(0, flat.size, step):
            yield flat[start : start + step]


def write_bytes(tensor: ir.TensorProtocol, file: Sink) -> None:
    """Write the bytes of `tensor` as ONNX stores them, in chunks where it is external or narrowed.

    Raises:
        InputError: The external data cannot be read, or ends early.
    """
    if isinstance(tensor, ir.ExternalTensor):
        for piece in _from_file(tensor, np.dtype(np.uint8), tensor.nbytes):
            file.write(piece.data)
    elif hasattr(tensor, "tofile"):
        tensor.tofile(file)
    else:
        file.write(tensor.tobytes())


def _from_file(
    tensor: ir.ExternalTensor, dtype: np.dtype[Any], count: int
) -> Iterator[npt.NDArray[Any]]:
    """Yield `count` elements of `dtype` from where the tensor's data begins."""
    assert tensor.valid(), tensor
    try:
        with open(tensor.path, "rb", buffering=0) as file:
            file.seek(tensor.offset or 0)
            while count:
                piece = np.empty(min(count, CHUNK_BYTES // dtype.itemsize), dtype)
                _fill(piece.view(np.uint8).data, file, tensor)
                yield piece
                count -= piece.size
    except OSError as error:
        raise InputError(
            f"{tensor.path}: the data of {tensor.name!r} cannot be read ({error.strerror}); "
            "wanted a readable file; keep it in place while its model is used"
        ) from None


def _fill(buffer: memoryview, file: Any, tensor: ir.ExternalTensor) -> None:
    while buffer:
        count = file.readinto(buffer)
        if not count:
            raise InputError(
                f"{tensor.path}: ends {len(buffer)} bytes before the data of {tensor.name!r} does; "
                "wanted the whole file; copy it again"
            )
        buffer = buffer[count:]


@dataclasses.dataclass(frozen=True)
class WeightRange:
    """How large and how small the numbers of a tensor are.

    Attributes:
        finite_absmax: The largest finite magnitude; 0 if there is none.
        smallest_nonzero: The smallest magnitude above 0, subnormals included; inf if there is none.
        has_nonfinite: Whether an infinity or a NaN is among them.
    """

    finite_absmax: float
    smallest_nonzero: float
    has_nonfinite: bool


def weight_range(tensor: ir.TensorProtocol) -> WeightRange:
    """Measure a float32 tensor of any size, chunk by chunk.

    Raises:
        InputError: As `chunks`.
    """
    assert tensor.dtype is ir.DataType.FLOAT, tensor.dtype
    largest, smallest, has_nonfinite = 0.0, math.inf, False
    for piece in chunks(tensor):
        # Magnitudes are ordered as their bits are; integers make this several times faster.
        bits = piece.view(np.uint32) & _MAGNITUDE
        if bits.max() >= _INFINITY:
            has_nonfinite = True
            bits = bits[bits < _INFINITY]
        if bits.max(initial=0) == 0:
            continue
        largest = max(largest, _value(bits.max()))
        bits -= np.uint32(1)  # 0 becomes the largest number
        smallest = min(smallest, _value(bits.min() + np.uint32(1)))
    return WeightRange(largest, smallest, has_nonfinite)


def _value(bits: np.uint32) -> float:
    return float(bits.view(np.float32))
