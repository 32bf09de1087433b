"""Text in a serialised model that is none: protobuf gives it as bytes, which nothing expects."""

from collections.abc import Iterator
from typing import Any

import onnx
from google.protobuf import (  # type: ignore[import-untyped]  # has no stubs
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError, EncodeError, Message  # type: ignore[import-untyped]

from onnxcast.errors import InputError

__all__ = ["check_each_text", "check_text"]

_SHOWN = 40


def check_text(model: onnx.ModelProto, shown: str) -> None:
    """Check that every text in a model is UTF-8: names, notes, metadata, dimensions and the rest.

    Args:
        model: It is copied, so that what is large had better not be in it.
        shown: How messages name the model.

    Raises:
        InputError: A text is not, with where it is; or `model` is too large to copy.
    """
    try:
        data = model.SerializeToString()
    except EncodeError:
        raise InputError(
            f"{shown}: more than 2 GB without its initializers; wanted less; make initializers of "
            "large constants"
        ) from None
    try:
        _STRICT.FromString(data)
    except DecodeError:
        check_each_text(model, f"{shown}: ")


def check_each_text(message: Message, shown: str) -> None:
    """`check_text` of any message, which is not copied: slow where it has many parts.

    Args:
        message: It is not changed.
        shown: What messages begin with.

    Raises:
        InputError: As above.
    """
    for where, value in _not_text(message):
        raise InputError(
            f"{shown}{where} is {value[:_SHOWN]!r}, which is not UTF-8; wanted text; rewrite it"
        )


def _strict_model() -> Any:
    """`onnx.ModelProto` in proto3, whose parsers refuse text that is not UTF-8; proto2's do not."""
    file = descriptor_pb2.FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(file)
    file.syntax = "proto3"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(onnx.ModelProto.DESCRIPTOR.full_name)
    )


_STRICT = _strict_model()


def _not_text(message: Message) -> Iterator[tuple[str, bytes]]:
    """Yield each text that is none, with where it is, such as ``graph.node[3].name``."""
    pending = [("", message)]
    while pending:
        where, message = pending.pop()
        for field in message.DESCRIPTOR.fields:
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            for index, value in _values(message, field.name):
                at = f"{where}{field.name}{index}"
                if isinstance(value, bytes):
                    yield at, value
                elif isinstance(value, Message):
                    pending.append((f"{at}.", value))


def _values(message: Message, name: str) -> Iterator[tuple[str, str | bytes | Message]]:
    """Yield what is in a field, with its index if there may be several."""
    value = getattr(message, name)
    if not isinstance(value, str | bytes | Message):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))
    elif not isinstance(value, Message) or message.HasField(name):
        yield "", value
