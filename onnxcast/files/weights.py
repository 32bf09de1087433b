"""Weights of any size in bounded memory: read in chunks, measured, narrowed as they are written.

External data is read from its file, not mapped: pages of a mapping that were touched count as
memory of the process until the mapping goes. Each chunk is a job of its own, so that all cores read
and round while those before it are written.
"""

__all__ = [
    "CHUNK_BYTES",
    "ConvertedTensor",
    "Job",
    "NarrowedTensor",
    "WidenedTensor",
    "byte_jobs",
    "chunks",
    "element_jobs",
    "in_one_piece",
    "write_bytes",
]

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.files.ahead import ahead

CHUNK_BYTES = 2**20
"""The most bytes of a source tensor that one job holds: it stays in the cache of a core.

Of larger ones the memory comes anew from the system, and with smaller ones threads wait for one
another; either takes longer.
"""

Job: TypeAlias = Callable[[], npt.NDArray[Any]]
"""Gives one piece of a tensor, flat."""


class Sink(Protocol):
    """What bytes are written to: any binary file."""

    def write(self, data: memoryview | bytes, /) -> object:
        """Take all of `data`."""


class ConvertedTensor(ir.Tensor[ir.TensorProtocol]):
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

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.raw.size

    @property
    def nbytes(self) -> int:
        """The bytes that they take."""
        return self.size * self.dtype.bitwidth // 8

    def convert(self, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements of the source in the storage dtype of this one."""
        raise NotImplementedError

    def numpy(self) -> npt.NDArray[Any]:
        """Return the whole tensor, converted, in the storage dtype."""
        source = in_one_piece(self.raw)
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


class NarrowedTensor(ConvertedTensor):
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


class WidenedTensor(ConvertedTensor):
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
    return ahead(element_jobs(tensor))


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
        for job in element_jobs(tensor):
            yield partial(_bytes_of, job)


def element_jobs(tensor: ir.TensorProtocol) -> Iterator[Job]:
    """Yield jobs that give the elements of `tensor`, each up to `CHUNK_BYTES` of its source."""
    if isinstance(tensor, ConvertedTensor):
        for job in element_jobs(tensor.raw):
            yield partial(_converted, job, tensor)
    elif isinstance(tensor, ir.ExternalTensor):
        yield from _file_jobs(tensor, tensor.dtype.numpy(), tensor.size)
    else:
        flat = tensor.numpy().reshape(-1)
        step = CHUNK_BYTES // flat.itemsize
        for start in range(0, flat.size, step):
            yield partial(flat.__getitem__, slice(start, start + step))


def _converted(job: Job, view: ConvertedTensor) -> npt.NDArray[Any]:
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


def in_one_piece(tensor: ir.TensorProtocol) -> npt.NDArray[Any] | None:
    """All of a tensor in memory that is too small to be read in chunks; else None."""
    if isinstance(tensor, ir.ExternalTensor | ConvertedTensor):
        return None
    array = tensor.numpy()
    return array if 0 < array.nbytes <= CHUNK_BYTES else None
