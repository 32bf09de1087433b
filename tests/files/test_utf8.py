"""Every text that a model may hold, once in bytes that are none."""

from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from google.protobuf.message import Message  # type: ignore[import-untyped]  # has no stubs

from onnxcast.errors import InputError
from onnxcast.files import read, read_model, utf8

MARK = "marked"


def text_fields() -> Iterator[tuple[Any, ...]]:
    """The way from the model to each text field of each kind of message, by the shortest."""
    pending: list[tuple[Any, ...]] = [(field,) for field in onnx.ModelProto.DESCRIPTOR.fields]
    seen = set()
    for way in pending:
        field = way[-1]
        if field.type == field.TYPE_STRING:
            yield way
        elif field.message_type is not None and field.message_type.full_name not in seen:
            seen.add(field.message_type.full_name)
            pending.extend((*way, inner) for inner in field.message_type.fields)


WAYS = {".".join(field.name for field in way): way for way in text_fields()}


def spoiled(model: onnx.ModelProto) -> onnx.ModelProto:
    data = model.SerializeToString()
    assert data.count(MARK.encode()) == 1
    model = onnx.ModelProto()
    model.ParseFromString(data.replace(MARK.encode(), b"mar\xffed"))
    return model


def marked(way: tuple[Any, ...]) -> onnx.ModelProto:
    model = onnx.ModelProto()
    message: Any = model
    for field in way[:-1]:
        held = getattr(message, field.name)
        message = held if isinstance(held, Message) else held.add()
        message.SetInParent()
    if isinstance(getattr(message, way[-1].name), str):
        setattr(message, way[-1].name, MARK)
    else:
        getattr(message, way[-1].name).append(MARK)
    return model


@pytest.mark.parametrize("name", WAYS)
def test_each_text_is_refused_with_its_place(name: str) -> None:
    model = marked(WAYS[name])
    utf8.check_text(model, "m.onnx")
    with pytest.raises(InputError) as caught:
        utf8.check_text(spoiled(model), "m.onnx")
    place, _, rest = str(caught.value).removeprefix("m.onnx: ").partition(" is ")
    assert place.replace("[0]", "") == name
    assert rest == "b'mar\\xffed', which is not UTF-8; wanted text; rewrite it"


def test_all_kinds_of_message_are_there() -> None:
    assert {way[-1].containing_type.name for way in WAYS.values()} >= {
        *("ModelProto", "GraphProto", "NodeProto", "AttributeProto", "TensorProto", "TypeProto"),
        *("Dimension", "ValueInfoProto", "FunctionProto", "StringStringEntryProto"),
        *("OperatorSetIdProto", "TensorAnnotation", "DeviceConfigurationProto"),
    }


@pytest.mark.parametrize("place", ["model", "graph", "node", "name", "note", "key"])
def test_large_tensors_are_not_copied_and_looked_at(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(read, "_LARGE_INLINE", 1)
    monkeypatch.setattr(read, "_LARGE_TENSOR", 1)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        "g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }"
    )
    read_model(model)
    tensor = model.graph.initializer[0]
    texts: dict[str, tuple[Message, str]] = {
        "model": (model, "producer_name"),
        "graph": (model.graph, "name"),
        "node": (model.graph.node[0], "doc_string"),
        "name": (tensor, "name"),
        "note": (tensor, "doc_string"),
        "key": (tensor.metadata_props.add(), "key"),
    }
    setattr(*texts[place], MARK)
    with pytest.raises(InputError, match="is not UTF-8"):
        read_model(spoiled(model))
