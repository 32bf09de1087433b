"""One `.onnx` file to one `ModelProto`, with every way it can be bad told apart."""

__all__ = ["parse_file"]

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no stubs

from onnxcast.errors import InputError
from onnxcast.files.kinds import is_special
from onnxcast.files.unfolding import DEEPEST, unfolded, varint

_TEXT_SUFFIXES = frozenset(
    {".json", ".onnxjson", ".onnxtext", ".onnxtxt", ".pbtxt", ".prototxt", ".textproto"}
)
_PROTOBUF_LIMIT = 2**31 - 1
_VARINT, _DELIMITED = 0, 2
_SMALL_FILE = 16 * 2**20
_MOST_UNFOLDED = 4 * 2**30
_FIRST_BYTE = onnx.ModelProto.IR_VERSION_FIELD_NUMBER << 3 | _VARINT
_WIRE_TYPES = {
    field.number: _DELIMITED
    if field.type in (field.TYPE_MESSAGE, field.TYPE_STRING, field.TYPE_BYTES)
    else _VARINT
    for field in onnx.ModelProto.DESCRIPTOR.fields
}


def parse_file(path: Path) -> onnx.ModelProto:
    """Parse `path`; external data is not looked at.

    Raises:
        InputError: There is no such file, or it holds no whole binary ONNX model.
    """
    data = _read(path)
    wanted = _bytes_wanted(data)
    if wanted > len(data):
        raise InputError(
            f"{path}: truncated: {len(data)} bytes found, at least {wanted} wanted; "
            "copy or export the model again"
        )
    _check_unfolded(data, path)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        if unfolded(data, _MOST_UNFOLDED).depth > DEEPEST:
            raise InputError(
                f"{path}: more than {DEEPEST} messages inside one another; wanted fewer, which is "
                "about 32 graphs; flatten the model"
            ) from None
        raise InputError(
            f"{path}: not a protobuf file; wanted a binary ONNX model; export it again"
        ) from None
    if not model.HasField("graph"):
        raise InputError(
            f"{path}: not an ONNX model: no graph in it; wanted a binary ONNX model; "
            "give another file"
        )
    return model


def _check_unfolded(data: bytes, path: Path) -> None:
    """Refuse a file of very many tiny parts; a small one cannot hold too many."""
    if len(data) <= _SMALL_FILE:
        return
    if unfolded(data, len(data) + _MOST_UNFOLDED).nbytes > len(data) + _MOST_UNFOLDED:
        raise InputError(
            f"{path}: {len(data)} bytes that unfold to more than {_MOST_UNFOLDED} beyond these in "
            "memory; wanted tensors as raw or external data and fewer parts; save the model again"
        )


def _read(path: Path) -> bytes:
    try:
        _check_kind(path)
        size = path.stat().st_size
        if size > _PROTOBUF_LIMIT:
            raise InputError(
                f"{path}: {size} bytes found, at most {_PROTOBUF_LIMIT} wanted in one protobuf "
                "file; save the model with external data"
            )
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); wanted a readable .onnx file; "
            "check its permissions"
        ) from None
    if not data:
        raise InputError(f"{path}: an empty file; wanted an .onnx file; export the model again")
    if data.startswith(b"version https://git-lfs"):
        raise InputError(f"{path}: a Git LFS pointer; wanted the model itself; run `git lfs pull`")
    return data


def _check_kind(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: a directory; wanted an .onnx file; give the file inside it")
    if not path.exists():
        raise InputError(f"{path}: no such file; wanted an .onnx file; check the path")
    if is_special(path):
        raise InputError(
            f"{path}: not a regular file, but a pipe, socket or device; wanted an .onnx file; "
            "save what it gives to a file first"
        )
    if path.suffix.lower() in _TEXT_SUFFIXES:
        raise InputError(
            f"{path}: a textual form of ONNX ({path.suffix}); wanted the binary form; "
            "convert it with onnx.save(onnx.load(path), 'model.onnx')"
        )


def _bytes_wanted(data: bytes) -> int:
    """Walk the top-level fields and return how many bytes the file should at least have.

    The walk ends at the first thing that is no field of a `ModelProto`: what that is, the
    parser will say. Every writer puts `ir_version` first, so text is not taken for a model.
    """
    at = 0 if data[0] == _FIRST_BYTE else len(data)
    while at < len(data):
        tag, at = varint(data, at)
        if at <= len(data) and _WIRE_TYPES.get(tag >> 3) != tag & 7:
            return len(data)
        value, at = varint(data, at)
        if tag & 7 == _DELIMITED:
            at += value
    return at
