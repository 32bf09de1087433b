"""The data file of a model: its large tensors one after another, named by the hash of it all."""

__all__ = ["DataFile", "Place", "shared", "source_tensor", "stale_data_files", "write_data"]

import dataclasses
import hashlib
import logging
import mmap
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt
import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.files.ahead import ahead
from onnxcast.files.atomic import open_beside, settle
from onnxcast.files.protos import parts, tensors
from onnxcast.files.slots import Slot
from onnxcast.files.weights import ConvertedTensor, Job, byte_jobs
from onnxcast.files.wire import parse_file

logger = logging.getLogger(__name__)

_HASH_DIGITS = 8

_WRITEBACK_BYTES = 32 * 2**20

_Key = tuple[object, ...]


@dataclasses.dataclass(frozen=True)
class DataFile:
    """A data file that was written and waits beside its place.

    Attributes:
        path: Where it goes.
        offsets: Where in it each tensor begins, by the identity of what was stored.
        file: What was written.
        is_named: Whether its name was given, and not made of its content.
    """

    path: Path
    offsets: dict[_Key, int]
    file: BinaryIO
    is_named: bool

    def settle(self, undo: ExitStack) -> None:
        """Let it take its place, where tensors yet to be read may be; `undo` removes a new one."""
        if not self.path.exists():
            undo.callback(self.path.unlink, missing_ok=True)
        elif self.is_named:
            logger.warning("%s is replaced: models that read it are broken from now on", self.path)
        settle(self.file, self.path)

    def tensor(self, slot: Slot) -> ir.ExternalTensor:
        """Return the tensor of `slot` as the written model refers to it."""
        tensor = slot.tensor
        return ir.ExternalTensor(
            self.path.name,
            self.offsets[_identity(tensor)],
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=slot.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props) or None,
            base_dir=self.path.parent,
        )


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a data file goes.

    Attributes:
        output: The `.onnx` that will refer to the file.
        location: The name of the file, or None for `<stem of output>.<hash>.data`.
        alignment: Tells what the offset of a tensor is to be a multiple of.
    """

    output: Path
    location: str | None
    alignment: Callable[[ir.TensorProtocol], int]


def write_data(
    slots: Sequence[Slot], place: Place, undo: ExitStack, progress: Callable[[int], None]
) -> DataFile:
    """Write the tensors of `slots` to a data file that is yet to take its place.

    Args:
        slots: What to store, in this order; tensors with the same storage are stored once.
        place: Where to.
        undo: Removes it if it is not to.
        progress: Called with the number of bytes of each write.

    Raises:
        InputError: The data of an external tensor cannot be read.
        OSError: The file cannot be written.
    """
    file = open_beside(place.output.with_suffix(".data"), undo)
    sink = _HashingSink(file, progress)
    stored = {_identity(slot.tensor): slot.tensor for slot in slots}
    offsets: dict[_Key, int] = {}
    jobs = (partial(_keyed, key, job) for key in stored for job in byte_jobs(stored[key]))
    for key, piece in ahead(jobs):
        if key not in offsets:
            sink.align(place.alignment(stored[key]))
            offsets[key] = sink.position
        sink.write(piece.data)
    hashed = f"{place.output.stem}.{sink.digest()}.data"
    path = place.output.with_name(place.location or hashed)
    return DataFile(path, offsets, file, place.location is not None)


def stale_data_files(outputs: Collection[Path]) -> set[Path]:
    """Return the data files that go once `outputs` are written, unless they refer to them again.

    These are files named as `write_data` does that the `.onnx` files at `outputs` refer to now, and
    that no other `.onnx` in the folder names.
    """
    found = {path for output in outputs for path in _own_data(output)}
    if found:
        written = {output.name for output in outputs}
        for other in next(iter(outputs)).parent.glob("*.onnx"):
            if other.name not in written and other.is_file():
                found -= {path for path in found if _names(other, path.name)}
    return found


def _own_data(output: Path) -> set[Path]:
    name = re.compile(rf"{re.escape(output.stem)}\.[0-9a-f]{{{_HASH_DIGITS}}}\.data")
    found = {path.name: path for path in output.parent.iterdir() if name.fullmatch(path.name)}
    if not found or not output.is_file():
        return set()
    try:
        model = parse_file(output)
    except InputError:  # what is replaced need not be a model
        return set()
    entries = (entry for tensor in tensors(parts(model)) for entry in tensor.external_data)
    return {found[entry.value] for entry in entries if entry.value in found}


def _names(model: Path, name: str) -> bool:
    """Whether `name` stands anywhere in the file, or it cannot be told."""
    try:
        with model.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(name.encode()) >= 0
    except OSError:
        return True


def source_tensor(tensor: ir.TensorProtocol) -> ir.ExternalTensor | None:
    """Return the tensor in a file that the numbers of `tensor` are read from, if there is one."""
    while isinstance(tensor, ConvertedTensor):
        tensor = tensor.raw
    return tensor if isinstance(tensor, ir.ExternalTensor) else None


def shared(slots: Iterable[Slot], others: Iterable[Slot]) -> bool:
    """Whether any tensor of `slots` is stored in the same place as one of `others`."""
    known = {_identity(slot.tensor) for slot in slots}
    return any(_identity(slot.tensor) in known for slot in others)


def _keyed(key: _Key, job: Job) -> tuple[_Key, npt.NDArray[Any]]:
    return key, job()


def _identity(tensor: ir.TensorProtocol) -> _Key:
    """Return what two tensors have in common exactly if they are the same stored numbers."""
    if isinstance(tensor, ConvertedTensor):
        return (tensor.dtype, *_identity(tensor.raw))
    if isinstance(tensor, ir.ExternalTensor):
        return (tensor.path, tensor.offset or 0, tensor.dtype, tensor.nbytes)
    return (id(tensor),)


class _HashingSink:
    """A file that is hashed while it is written, and on its way to the disk meanwhile."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._file = file
        self._progress = progress
        self._hash = hashlib.sha256()
        self.position = 0
        self._sent = 0

    def write(self, data: memoryview | bytes) -> None:
        self._put(data)
        self._progress(len(data))

    def align(self, alignment: int) -> None:
        self._put(bytes(-self.position % alignment))

    def digest(self) -> str:
        return self._hash.hexdigest()[:_HASH_DIGITS]

    def _put(self, data: memoryview | bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.position += len(data)
        if self.position - self._sent >= _WRITEBACK_BYTES:
            self._send()

    def _send(self) -> None:
        """Let the system begin to write what it holds, so that the last fsync has little to do."""
        length = self.position - self._sent
        if hasattr(os, "posix_fadvise"):  # Linux and FreeBSD
            with suppress(OSError):  # advice only: what goes wrong on the way, fsync raises
                os.posix_fadvise(self._file.fileno(), self._sent, length, os.POSIX_FADV_DONTNEED)
        self._sent = self.position
