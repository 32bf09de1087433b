"""External data as a model declares it: inside the model's folder, there, and long enough."""

__all__ = ["check_external_data"]

import itertools
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from onnx import TensorProto

from onnxcast.errors import InputError
from onnxcast.files.counts import stored_bytes
from onnxcast.files.protos import Parts, tensors

_NUMBER = re.compile("[0-9]{1,19}")


def check_external_data(model: Parts, folder: Path, shown: str) -> bool:
    """Check where every external tensor of `model` lies; its bytes are not read.

    Args:
        model: The model, before anything of it is used.
        folder: The folder that its locations are relative to.
        shown: How messages name the model.

    Returns:
        Whether the model has external tensors.

    Raises:
        InputError: A location outside `folder`, a link, a file that is missing or too short.
    """
    sizes: dict[str, int] = {}
    regions: dict[str, list[_Region]] = {}
    for tensor in tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        named = f"{shown}: external data of {tensor.name!r}"
        entries = _entries(tensor, named)
        location = entries.get("location", "")
        if location not in sizes:
            sizes[location] = _file_size(location, folder, named)
        region = _region(tensor, entries, sizes[location], named)
        regions.setdefault(location, []).append(region)
    for each in regions.values():
        _check_apart(each, shown)
    return bool(sizes)


class _Region(NamedTuple):
    """The bytes of a file that a tensor is stored in, sorted by where they begin."""

    start: int
    end: int
    data_type: int
    name: str


def _entries(tensor: TensorProto, named: str) -> dict[str, str]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        raise InputError(
            f"{named} says something twice; wanted each of location, offset and length once; "
            "save the model again"
        )
    return entries


def _check_apart(regions: list[_Region], shown: str) -> None:
    """Tensors may share all of their bytes, in one type, or none."""
    regions = sorted(region for region in regions if region.end > region.start)
    for before, after in itertools.pairwise(regions):
        if after.start < before.end and before[:3] != after[:3]:
            raise InputError(
                f"{shown}: external data of {before.name!r} and {after.name!r} overlap and are not "
                "the same; wanted tensors apart, or sharing all bytes and the type; save the "
                "model again"
            )


def _file_size(location: str, folder: Path, named: str) -> int:
    if not location or _leads_out(location):
        raise InputError(
            f"{named} is at {location!r}, outside the model's folder; wanted a relative path "
            "inside it; save the model again with its data beside it"
        )
    path = folder / location
    try:
        linked, there = _is_linked(path, folder), path.is_file()
    except OSError as error:
        raise InputError(
            f"{named} is at {location[:60]!r}, which cannot be looked up ({error.strerror}); "
            "wanted a file beside the model; save the model again"
        ) from None
    if linked:
        raise InputError(
            f"{named} is at {location!r}, a link; wanted the file itself, since a link may lead "
            "outside the model's folder; copy model and data to one folder (`cp -L`)"
        )
    if not there:
        raise InputError(
            f"{named} is at {location!r}, but there is no such file in {folder}; wanted the file "
            "there; copy it beside the model"
        )
    return path.stat().st_size


def _leads_out(location: str) -> bool:
    """Whether a path leaves its folder on any system, or is none."""
    kinds = PurePosixPath(location), PureWindowsPath(location)
    return "\0" in location or any(path.anchor or ".." in path.parts for path in kinds)


def _is_linked(path: Path, folder: Path) -> bool:
    """Whether a link is on the way from `folder` to `path`, or another name of the file exists."""
    if path.parent.resolve() != folder.resolve() / path.parent.relative_to(folder):
        return True
    return path.is_symlink() or (path.is_file() and path.stat().st_nlink > 1)


def _region(tensor: TensorProto, entries: Mapping[str, str], file_size: int, named: str) -> _Region:
    wanted = stored_bytes(tensor)
    offset, length = entries.get("offset", "0"), entries.get("length", str(wanted))
    if not (_NUMBER.fullmatch(offset) and _NUMBER.fullmatch(length)):
        raise InputError(
            f"{named} has offset {offset[:30]!r} and length {length[:30]!r}; wanted two numbers of "
            "bytes; save the model again"
        )
    if int(length) < wanted:
        raise InputError(
            f"{named} has {length} bytes; wanted {wanted} for its type and shape; "
            "save the model again"
        )
    end = int(offset) + int(length)
    if end > file_size:
        raise InputError(
            f"{named} ends at byte {end}, but {file_size} bytes were found in the file; wanted "
            "the whole file; copy it again"
        )
    return _Region(int(offset), int(offset) + wanted, tensor.data_type, tensor.name)
