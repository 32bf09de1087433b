"""Writing a model so that the `.onnx` is the single commit: all of it is there, or the old one is.

External data goes first, to a file whose name holds the hash of its content, so that it never
changes data that another `.onnx` reads; the `.onnx` then replaces its predecessor in one step.
"""

__all__ = ["Progress", "check_output", "commit", "default_output"]

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError, OnnxcastError, RefusedError
from onnxcast.files.atomic import open_beside, settle
from onnxcast.files.data import DataFile, source_file, stale_data_files, write_data
from onnxcast.files.kinds import is_special
from onnxcast.files.maps import to_proto
from onnxcast.files.read import collector_paused, root_cause
from onnxcast.files.slots import Slot, tensor_slots
from onnxcast.files.weights import write_bytes

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the bytes of tensors written so far and their total."""

_INLINE_BELOW = 1024
_LARGEST_INLINE = 3 * 2**29
_LARGEST_PROTOBUF = 2**31 - 1


def default_output(path: Path, format_name: str) -> Path:
    """Return `model.<format>.onnx` beside `model.onnx`."""
    return path.with_name(f"{path.stem}.{format_name}.onnx")


def check_output(output: Path, source: Path | None, *, force: bool) -> None:
    """Check, before any work is done, that `output` can be written.

    A file that exists is no fault: it is replaced in one step.

    Args:
        output: The `.onnx` to write.
        source: The file the model came from, if any.
        force: Whether `output` may be the source itself.

    Raises:
        InputError: The output is the source, a directory or no regular file, or its folder is not
            there or not writable.
    """
    folder = output.parent
    _check_not_special(output)
    if output.is_dir():
        raise InputError(f"{output}: a directory; wanted the .onnx file to write; name a file")
    if not folder.is_dir():
        raise InputError(f"{output}: no folder {folder}; wanted one to write in; make it first")
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"{output}: the folder {folder} is not writable; wanted one to write in; choose another"
        )
    if source is not None and not force and _is_same(output, source):
        raise InputError(
            f"{output}: is the input itself; wanted another file; name another output, or allow it"
            " by --force (force=True)"
        )


def commit(
    model: ir.Model,
    output: Path,
    *,
    external: bool | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write `model` to `output` in one commit; on any failure what was there before stays.

    External data goes to `<stem of output>.<8 hex digits of its SHA-256>.data` beside it: the
    tensors of at least 1 KiB, each at a multiple of 64 bytes, those with one storage once, chunk
    by chunk. The `.onnx` is written beside its target, fsynced and renamed. Data files named so
    that the `.onnx` before it used are then removed, so that a model in memory that reads its
    weights from them is no longer usable. The same model gives the same bytes.

    Args:
        model: The model; it is not changed.
        output: The `.onnx` to write, in an existing folder; a link there is replaced.
        external: Whether large tensors go to a data file. By default they do if any tensor of
            the model is external, or all of them together are larger than 1.5 GiB.
        progress: Called after each chunk, and at the end.

    Returns:
        The files of the model: `output`, then its data file if there is one.

    Raises:
        InputError: `output` is external data of the model or no regular file, or external data
            cannot be read, or the model is too large for one file and `external` is False.
        RefusedError: The files cannot be written (disk full, no permission).
    """
    _check_not_special(output)
    slots = list(tensor_slots(model))
    _check_not_read(output, slots)
    outside = _outside(slots, external, output)
    count = _Counter(progress, sum(_nbytes(slot.tensor) for slot in slots))
    data = None
    with _failures_told(output), ExitStack() as undo:
        stale = stale_data_files(output)
        if outside:
            data = write_data(outside, output, undo, count.add)
        with _exchanged(_stored_tensors(slots, outside, data)):
            payload = _serialized(model)
        file = open_beside(output, undo)
        file.write(payload)
        settle(file, output)
        undo.pop_all()
    count.finish()
    files = [output] if data is None else [output, data.path]
    _remove(stale.difference(files))
    return files


def _check_not_special(output: Path) -> None:
    if is_special(output):
        raise InputError(
            f"{output}: not a regular file, but a pipe, socket or device; wanted the .onnx file to "
            "write; name another output"
        )


def _is_same(output: Path, source: Path) -> bool:
    if output.exists() and source.exists():
        return output.samefile(source)
    return output.resolve() == source.resolve()


def _check_not_read(output: Path, slots: Sequence[Slot]) -> None:
    if not output.exists():
        return
    read = {source_file(slot.tensor) for slot in slots}
    if any(path is not None and path.exists() and path.samefile(output) for path in read):
        raise InputError(
            f"{output}: holds external data of the model; wanted another file; name another output"
        )


def _outside(slots: Sequence[Slot], external: bool | None, output: Path) -> list[Slot]:
    """Return the slots whose tensors go to the data file."""
    total = sum(_nbytes(slot.tensor) for slot in slots)
    if external is None:
        is_read = any(source_file(slot.tensor) is not None for slot in slots)
        external = is_read or total > _LARGEST_INLINE
    if external:
        return [slot for slot in slots if slot.movable and _nbytes(slot.tensor) >= _INLINE_BELOW]
    if total > _LARGEST_PROTOBUF:
        raise InputError(
            f"{output}: {total} bytes of tensors, at most {_LARGEST_PROTOBUF} wanted in one file; "
            "allow external data"
        )
    return []


def _nbytes(tensor: ir.TensorProtocol) -> int:
    return 0 if tensor.dtype is ir.DataType.STRING else tensor.nbytes


def _stored_tensors(
    slots: Iterable[Slot], outside: Iterable[Slot], data: DataFile | None
) -> Iterator[tuple[Slot, ir.TensorProtocol]]:
    """Yield each slot whose tensor the file holds in another form, and that form."""
    moved = {id(slot) for slot in outside}
    for slot in slots:
        if data is not None and id(slot) in moved:
            yield slot, data.tensor(slot)
        elif isinstance(slot.tensor, ir.ExternalTensor):
            yield slot, _inline(slot)


def _inline(slot: Slot) -> ir.TensorProtocol:
    buffer = BytesIO()
    write_bytes(slot.tensor, buffer)
    proto = onnx.TensorProto(
        name=slot.name or None,
        data_type=slot.tensor.dtype.value,
        dims=slot.tensor.shape.numpy(),
        doc_string=slot.tensor.doc_string or None,
        raw_data=buffer.getvalue(),
    )
    for key, value in slot.tensor.metadata_props.items():
        proto.metadata_props.add(key=key, value=value)
    return ir.serde.deserialize_tensor(proto)


@contextmanager
def _exchanged(replacements: Iterable[tuple[Slot, ir.TensorProtocol]]) -> Iterator[None]:
    """Put other tensors into slots for a while."""
    done: list[Slot] = []
    try:
        for slot, tensor in replacements:
            done.append(slot)
            slot.put(tensor)
        yield
    finally:
        for slot in done:
            slot.put(slot.tensor)


def _serialized(model: ir.Model) -> bytes:
    try:
        with collector_paused():
            proto = to_proto(model)
    except ir.serde.SerdeError as error:
        cause = root_cause(error)
        if isinstance(cause, OnnxcastError | OSError):
            raise cause from None
        raise
    payload: bytes = proto.SerializeToString(deterministic=True)
    return payload


@contextmanager
def _failures_told(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RefusedError(
            f"{output}: cannot be written ({error.strerror or error}); wanted room and permission "
            "there; nothing was changed, free space or choose another folder"
        ) from error


def _remove(paths: Iterable[Path]) -> None:
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:  # the commit stands without it
        logger.warning("old data stays: %s", error)


class _Counter:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress or (lambda _done, _total: None)
        self._done = 0
        self._total = total

    def add(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._total)

    def finish(self) -> None:
        self._progress(self._total, self._total)
