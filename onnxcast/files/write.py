"""Writing a model so that the `.onnx` is the single commit: all of it is there, or the old one is.

External data goes first, to a file whose name holds the hash of its content, so that it never
changes data that another `.onnx` reads; the `.onnx` then replaces its predecessor in one step.
"""

__all__ = ["Progress", "commit", "commit_together"]

import dataclasses
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError, OnnxcastError, RefusedError
from onnxcast.files.atomic import open_beside, settle
from onnxcast.files.data import (
    DataFile,
    Place,
    shared,
    source_tensor,
    stale_data_files,
    write_data,
)
from onnxcast.files.layout import alignment, moved_outside, nbytes
from onnxcast.files.maps import to_proto
from onnxcast.files.outputs import check_not_special
from onnxcast.files.read import collector_paused, root_cause
from onnxcast.files.slots import Slot, tensor_slots
from onnxcast.files.weights import write_bytes

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the bytes of tensors written so far and their total."""


def commit(
    model: ir.Model,
    output: Path,
    *,
    external: bool | None = None,
    location: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write `model` to `output` in one commit; on any failure what was there before stays.

    External data goes to `<stem of output>.<8 hex digits of its SHA-256>.data` beside it: the
    tensors of at least 1 KiB, aligned as those of the source are and to at least 64 bytes, those
    with one storage once, chunk by chunk. The `.onnx` is written beside its target, fsynced and
    renamed. Data files named so that the `.onnx` before it used, and no other, are then removed, so
    that a model in memory that reads its weights from them is no longer usable. The same model
    gives the same bytes.

    Args:
        model: The model; it is not changed.
        output: The `.onnx` to write, in an existing folder; a link there is replaced.
        external: Whether large tensors go to a data file. By default they do if any tensor of
            the model is external, or all of them together are larger than 1.5 GiB.
        location: The name of the data file, if it is not to be made from the hash. If there is such
            a file, replacing it is a step of its own: a failure after it breaks the old model.
        progress: Called after each chunk, and at the end.

    Returns:
        The files of the model: `output`, then its data file if there is one.

    Raises:
        InputError: `output` is external data of the model or no regular file, or external data
            cannot be read, or the model is too large for one file and `external` is False.
        RefusedError: The files cannot be written (disk full, no permission).
    """
    return commit_together({output: model}, external=external, location=location, progress=progress)


def commit_together(
    models: Mapping[Path, ir.Model],
    *,
    external: bool | None = None,
    location: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write models by their outputs as `commit` does, with one data file for those that share data.

    Data that several of them read from one place in one file is written once, to a file named
    after the first of them. All files are renamed one after the other, once all are whole.

    Returns:
        Each `.onnx` and each data file.

    Raises:
        InputError: As `commit`; or `location` is given and there would be several data files.
        RefusedError: As `commit`.
    """
    external = True if location is not None else external
    parts = [_part(model, output, external) for output, model in models.items()]
    groups = _grouped(parts)
    if location is not None and sum(bool(_outside(group)) for group in groups) > 1:
        raise InputError(
            f"location {location!r}: the models share no data, so each has a data file of its own; "
            "write them one by one, or leave the names to onnxcast"
        )
    slots = [slot for part in parts for slot in part.slots]
    for output in models:
        _check_not_read(output, slots)
    count = _Counter(progress, sum(nbytes(slot.tensor) for slot in slots))
    with ExitStack() as undo:
        waiting = [_prepared(group, location, count, undo) for group in groups]
        files = [file for each in waiting for file in _put(each)]
    count.finish()
    return files


@dataclasses.dataclass(frozen=True)
class _Part:
    """A model to write: its tensors, and those of them that go to a data file."""

    model: ir.Model
    output: Path
    slots: Sequence[Slot]
    outside: Sequence[Slot]


def _part(model: ir.Model, output: Path, external: bool | None) -> _Part:
    check_not_special(output)
    slots = list(tensor_slots(model))
    return _Part(model, output, slots, moved_outside(slots, external, output))


def _grouped(parts: Iterable[_Part]) -> list[list[_Part]]:
    """Put those together that share data and lie in one folder."""
    groups: list[list[_Part]] = []
    for part in parts:
        akin = [
            group
            for group in groups
            if group[0].output.parent == part.output.parent
            and shared(_outside(group), part.outside)
        ]
        groups = [group for group in groups if group not in akin]
        groups.append([*(each for group in akin for each in group), part])
    return groups


def _outside(group: Iterable[_Part]) -> list[Slot]:
    return [slot for part in group for slot in part.outside]


@dataclasses.dataclass(frozen=True)
class _Waiting:
    """Models that refer to one data file, or to none, whole beside their places; what then goes."""

    files: Mapping[Path, BinaryIO]
    data: DataFile | None
    stale: set[Path]


def _prepared(
    group: Sequence[_Part], location: str | None, count: "_Counter", undo: ExitStack
) -> _Waiting:
    outputs = [part.output for part in group]
    data = None
    with _failures_told(outputs[0]):
        stale = stale_data_files(outputs)
        if outside := _outside(group):
            place = Place(outputs[0], location, alignment(outside).of)
            data = write_data(outside, place, undo, count.add)
        files = {part.output: _written(part, data, undo) for part in group}
    return _Waiting(files, data, stale)


def _put(waiting: _Waiting) -> list[Path]:
    """Let files take their places; return these."""
    with _failures_told(next(iter(waiting.files))), ExitStack() as undo:
        if waiting.data is not None:
            waiting.data.settle(undo)
        for output, file in waiting.files.items():
            settle(file, output)
            undo.pop_all()  # from here on the data is referred to
    there = [*waiting.files, *([] if waiting.data is None else [waiting.data.path])]
    _remove(waiting.stale.difference(there))
    return there


def _written(part: _Part, data: DataFile | None, undo: ExitStack) -> BinaryIO:
    """Write the `.onnx` of `part` beside its target."""
    with _exchanged(_stored_tensors(part, data)):
        payload = _serialized(part.model)
    file = open_beside(part.output, undo)
    file.write(payload)
    file.flush()
    os.fsync(file.fileno())
    return file


def _check_not_read(output: Path, slots: Sequence[Slot]) -> None:
    if not output.exists():
        return
    stored = (source_tensor(slot.tensor) for slot in slots)
    read = {Path(tensor.path) for tensor in stored if tensor is not None}
    if any(path.exists() and path.samefile(output) for path in read):
        raise InputError(
            f"{output}: holds external data of the model; wanted another file; name another output"
        )


def _stored_tensors(part: _Part, data: DataFile | None) -> Iterator[tuple[Slot, ir.TensorProtocol]]:
    """Yield each slot whose tensor the file holds in another form, and that form."""
    moved = {id(slot) for slot in part.outside}
    for slot in part.slots:
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
