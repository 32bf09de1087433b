"""What a serialised model would unfold to, told without unfolding it.

A message of two bytes takes a hundred in memory, so a file can be far smaller than what a parser
makes of it.
"""

__all__ = ["DEEPEST", "Unfolded", "unfolded", "varint"]

import dataclasses
from typing import Any, TypeAlias

import onnx

DEEPEST = 100
"""How many messages inside one another protobuf's parsers take."""

_FIELD_BYTES = 128
_PACKED_FACTOR = 8
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_VARINT_LIMIT = 10

_Fields: TypeAlias = "dict[int, _Fields | None]"
"""Fields of a message by number: those of the message that one holds, or None for numbers."""


@dataclasses.dataclass(frozen=True)
class Unfolded:
    """What a message would be in memory.

    Attributes:
        nbytes: About how many bytes, or a little more than the limit.
        depth: The most messages inside one another, or a few more than the limit.
    """

    nbytes: int
    depth: int


def unfolded(data: bytes, limit: int) -> Unfolded:
    """Walk over the fields of a serialised `onnx.ModelProto`, to the first thing that is none.

    Args:
        data: The model.
        limit: The walk ends where more bytes than these are counted, or more than `DEEPEST`
            messages stand inside one another.
    """
    total, deepest, at = len(data), 1, 0
    inside: list[tuple[int, _Fields]] = [(len(data), _fields(onnx.ModelProto.DESCRIPTOR, {}))]
    while inside and total <= limit and deepest <= DEEPEST:
        end, fields = inside[-1]
        if at >= end:
            inside.pop()
            continue
        tag, at = varint(data, at)
        total += _FIELD_BYTES
        if tag & 7 != _DELIMITED:
            at = _number_end(data, at, tag & 7)
            continue
        length, at = varint(data, at)
        held = fields.get(tag >> 3, _BYTES)
        if held is None:
            total += length * _PACKED_FACTOR
        elif held is not _BYTES and at + length <= end:
            inside.append((at + length, held))
            deepest = max(deepest, len(inside))
            continue
        at += length
    return Unfolded(total, deepest)


_BYTES: _Fields = {}


def _number_end(data: bytes, at: int, wire: int) -> int:
    """Return where a number ends; past the end of all if there is no such encoding."""
    if wire == _VARINT:
        return varint(data, at)[1]
    return at + _FIXED[wire] if wire in _FIXED else len(data)


def _fields(message: Any, known: dict[str, _Fields]) -> _Fields:
    """The fields of a message type, each type once in `known`."""
    if message.full_name not in known:
        fields = known[message.full_name] = {}
        for field in message.fields:
            if field.type == field.TYPE_MESSAGE:
                fields[field.number] = _fields(field.message_type, known)
            elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
                fields[field.number] = _BYTES
            else:
                fields[field.number] = None
    return known[message.full_name]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at `at` and where it ends, past the end if it is cut."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_LIMIT]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    return value, min(at + _VARINT_LIMIT, len(data) + 1)
