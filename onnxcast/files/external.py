"""External data as a model declares it: inside the model's folder, there, and long enough."""

__all__ = ["check_external_data"]

import math
from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir
from onnx import ModelProto, TensorProto

from onnxcast.errors import InputError
from onnxcast.files.protos import tensors


def check_external_data(model: ModelProto, folder: Path, shown: str) -> bool:
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
    for tensor in tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        named = f"{shown}: external data of {tensor.name!r}"
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in sizes:
            sizes[location] = _file_size(location, folder, named)
        _check_length(tensor, entries, sizes[location], named)
    return bool(sizes)


def _file_size(location: str, folder: Path, named: str) -> int:
    path = folder / location
    if not location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise InputError(
            f"{named} is at {location!r}, outside the model's folder; wanted a relative path "
            "inside it; save the model again with its data beside it"
        )
    if path.is_symlink() or (path.exists() and path.stat().st_nlink > 1 and path.is_file()):
        raise InputError(
            f"{named} is at {location!r}, a link; wanted the file itself, since a link may lead "
            "outside the model's folder; copy model and data to one folder (`cp -L`)"
        )
    if not path.is_file():
        raise InputError(
            f"{named} is at {location!r}, but there is no such file in {folder}; wanted the file "
            "there; copy it beside the model"
        )
    return path.stat().st_size


def _check_length(
    tensor: TensorProto, entries: Mapping[str, str], file_size: int, named: str
) -> None:
    wanted = _stored_bytes(tensor)
    offset, length = entries.get("offset", "0"), entries.get("length", str(wanted))
    if not (offset.isdecimal() and length.isdecimal()):
        raise InputError(
            f"{named} has offset {offset!r} and length {length!r}; wanted two numbers of bytes; "
            "save the model again"
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


def _stored_bytes(tensor: TensorProto) -> int:
    """Return the bytes that type and shape ask for; 0 for a type the checker will refuse."""
    try:
        bits: int = ir.DataType(tensor.data_type).bitwidth
    except (TypeError, ValueError):
        return 0
    count: int = math.prod(tensor.dims)
    return (bits * count + 7) // 8
