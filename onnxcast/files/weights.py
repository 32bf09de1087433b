"""Weights of any size in bounded memory: read in chunks, measured, narrowed as they are written.

External data is read from its file, not mapped: pages of a mapping that were touched count as
memory of the process until the mapping goes. Each chunk is a job of its own, so that all cores read
and round while those before it are written.
"""

__all__ = [
    "CHUNK_BYTES",
    "Job",
    "NarrowedTensor",
    "WeightRange",
    "WidenedTensor",
    "byte_jobs",
    "chunks",
    "weight_range",
    "write_bytes",
]

import dataclasses
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.files.ahead import ahead
from onnxcast.files.stored import StoredTensor

CHUNK_BYTES = 2**20
"""The most bytes of a source tensor that one job holds: it stays in the cache of a core.

Of larger ones the memory comes anew from the system, and with smaller ones threads wait for one
another; either takes longer.
"""

Job: TypeAlias = Callable[[], npt.NDArray[Any]]
"""Gives one piece of a tensor, flat."""

_MEASURED = "onnxcast.range"

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_BITS, _FLOATS = struct.Struct("2I"), struct.Struct("2f")


class Sink(Protocol):
    """What bytes are written to: any binary file."""

    def write(self, data: memoryview | bytes, /) -> object:
        """Take all of `data`."""


class _View(ir.Tensor[ir.TensorProtocol]):
    """A view of a float tensor in another format, converted whenever it is read.

    Shape, doc string, metadata and, unless another is given, name are the source's; `raw` is the
    source.
    """

    def __init__(
        self, source: ir.TensorProtocol, dtype: ir.DataType, name: str | None = None
    ) -> None:
        shape = source.shape
        super().__init__(
            source,
            dtype,
            shape=shape if type(shape) is ir.Shape and shape.frozen else ir.Shape(shape.numpy()),
            name=source.name if name is None else name,
            doc_string=source.doc_string,
            metadata_props=dict(source.metadata_props) or None,
        )

    def convert(self, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements of the source in the storage dtype of this one."""
        raise NotImplementedError

    def numpy(self) -> npt.NDArray[Any]:
        """Return the whole tensor, converted, in the storage dtype."""
        source = _whole(self.raw)
        if source is not None:
            return self.convert(source)
        whole = np.empty(self.size, self.dtype.numpy())
        at = 0
        for piece in chunks(self):
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
        write_bytes(self, file)

    def __repr__(self) -> str:
        return f"{self._repr_base()}(name={self.name!r}, source={type(self.raw).__name__})"


class NarrowedTensor(_View):
    """A view of a float tensor in a narrower format, rounded whenever it is read.

    Rounding is that of `onnxcast.formats.to_storage`: to nearest even, float8 saturates.
    """

    def __init__(
        self, source: ir.TensorProtocol, dtype: ir.DataType, name: str | None = None
    ) -> None:
        """View `source`, float32 or float64, as `dtype`, a float format of whole bytes."""
        assert source.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE), source.dtype
        assert dtype.bitwidth % 8 == 0, dtype
        super().__init__(source, dtype, name)

    def convert(self, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements of the source, rounded."""
        return formats.to_storage(piece, formats.of(self.dtype))


class WidenedTensor(_View):
    """A view of a narrow float tensor in float32, which is exact."""

    def __init__(self, source: ir.TensorProtocol) -> None:
        """View `source`, a float format of whole bytes that float32 contains."""
        assert formats.contains(formats.FLOAT32, formats.of(source.dtype)), source.dtype
        super().__init__(source, ir.DataType.FLOAT)

    def convert(self, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements of the source in float32."""
        return piece.astype(np.float32)


def chunks(tensor: ir.TensorProtocol) -> Iterator[npt.NDArray[Any]]:
    """Yield the elements of `tensor` in order, in flat pieces of at most `CHUNK_BYTES`.

    Args:
        tensor: A numeric tensor of whole-byte elements. Of an external one, no more than a few
            pieces are ever held.

    Raises:
        InputError: The external data cannot be read, or ends early.
    """
    return ahead(_jobs(tensor))


def write_bytes(tensor: ir.TensorProtocol, file: Sink) -> None:
    """Write the bytes of `tensor` as ONNX stores them, in chunks.

    Raises:
        InputError: The external data cannot be read, or ends early.
    """
    for piece in ahead(byte_jobs(tensor)):
        file.write(piece.data)


def byte_jobs(tensor: ir.TensorProtocol) -> Iterator[Job]:
    """Yield jobs that give the bytes of `tensor` as ONNX stores them, each up to `CHUNK_BYTES`.

    A job raises InputError if external data cannot be read, or ends early.
    """
    if isinstance(tensor, ir.ExternalTensor):
        yield from _file_jobs(tensor, np.dtype(np.uint8), tensor.nbytes)
    elif tensor.dtype.bitwidth % 8:
        yield lambda: np.frombuffer(tensor.tobytes(), np.uint8)
    else:
        for job in _jobs(tensor):
            yield partial(_bytes_of, job)


def _jobs(tensor: ir.TensorProtocol) -> Iterator[Job]:
    """Yield jobs that give the elements of `tensor`, each up to `CHUNK_BYTES` of its source."""
    if isinstance(tensor, _View):
        for job in _jobs(tensor.raw):
            yield partial(_converted, job, tensor)
    elif isinstance(tensor, ir.ExternalTensor):
        yield from _file_jobs(tensor, tensor.dtype.numpy(), tensor.size)
    else:
        flat = tensor.numpy().reshape(-1)
        step = CHUNK_BYTES // flat.itemsize
        for start in range(0, flat.size, step):
            yield partial(flat.__getitem__, slice(start, start + step))


def _converted(job: Job, view: _View) -> npt.NDArray[Any]:
    return view.convert(job())


def _bytes_of(job: Job) -> npt.NDArray[Any]:
    return np.ascontiguousarray(job()).view(np.uint8)


def _file_jobs(tensor: ir.ExternalTensor, dtype: np.dtype[Any], count: int) -> Iterator[Job]:
    """Yield jobs that read `count` elements of `dtype` from where the tensor's data begins."""
    assert tensor.valid(), tensor
    start, step = tensor.offset or 0, CHUNK_BYTES // dtype.itemsize
    for first in range(0, count, step):
        place = start + first * dtype.itemsize
        yield partial(_read, tensor, place, dtype, min(step, count - first))


def _read(
    tensor: ir.ExternalTensor, place: int, dtype: np.dtype[Any], count: int
) -> npt.NDArray[Any]:
    piece = np.empty(count, dtype)
    try:
        with open(tensor.path, "rb", buffering=0) as file:
            file.seek(place)
            _fill(piece.view(np.uint8).data, file, tensor)
    except OSError as error:
        raise InputError(
            f"{tensor.path}: the data of {tensor.name!r} cannot be read ({error.strerror}); "
            "wanted a readable file; keep it in place while its model is used"
        ) from None
    return piece


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
    """Measure a float32 tensor of any size, chunk by chunk; one from a file is measured once.

    Raises:
        InputError: As `chunks`.
    """
    assert tensor.dtype is ir.DataType.FLOAT, tensor.dtype
    # Of the class, as tensors are protocols, which take their time to answer.
    if not issubclass(type(tensor), (ir.ExternalTensor, StoredTensor)):
        return _measured_anew(tensor)  # the caller's, who may change it
    known = tensor.meta.get(_MEASURED)
    if not isinstance(known, WeightRange):
        known = tensor.meta[_MEASURED] = _measured_anew(tensor)
    return known


def _measured_anew(tensor: ir.TensorProtocol) -> WeightRange:
    whole = _whole(tensor)
    return _measured(_jobs(tensor)) if whole is None else _range_of(whole.reshape(-1))


def _whole(tensor: ir.TensorProtocol) -> npt.NDArray[Any] | None:
    """All of a tensor in memory that is too small to be read in chunks; else None."""
    if issubclass(type(tensor), (ir.ExternalTensor, _View)):
        return None
    array = tensor.numpy()
    return array if 0 < array.nbytes <= CHUNK_BYTES else None


def _measured(jobs: Iterable[Job]) -> WeightRange:
    found = list(ahead(partial(_range_of_job, job) for job in jobs))
    return WeightRange(
        max((each.finite_absmax for each in found), default=0.0),
        min((each.smallest_nonzero for each in found), default=math.inf),
        any(each.has_nonfinite for each in found),
    )


def _range_of_job(job: Job) -> WeightRange:
    return _range_of(job())


def _range_of(piece: npt.NDArray[Any]) -> WeightRange:
    # Magnitudes are ordered as their bits are; integers make this several times faster.
    bits = piece.view(np.uint32) & _MAGNITUDE
    largest = np.maximum.reduce(bits)
    has_nonfinite = bool(largest >= _INFINITY)
    if has_nonfinite:
        bits = bits[bits < _INFINITY]
        largest = bits.max(initial=0)
    if largest == 0:
        return WeightRange(0.0, math.inf, has_nonfinite)
    bits -= np.uint32(1)  # 0 becomes the largest number
    smallest = np.minimum.reduce(bits) + np.uint32(1)
    finite_absmax, smallest_nonzero = _FLOATS.unpack(_BITS.pack(largest, smallest))
    return WeightRange(finite_absmax, smallest_nonzero, has_nonfinite)
