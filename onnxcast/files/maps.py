"""Map types, which `onnx_ir` cannot hold, carried through it on the value that has one.

Only ``ai.onnx.ml`` gives maps (ZipMap), and nothing of onnxcast touches one: while a model is in
memory the type is in the value's metadata, and its declared type is empty.
"""

__all__ = ["from_proto", "has_maps", "to_proto"]

import base64
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from onnxcast.files.protos import scopes

_KEY = "onnxcast.map_type"


def from_proto(proto: onnx.ModelProto) -> ir.Model:
    """`onnx_ir.from_proto` that keeps map types; `proto` is used up.

    Raises:
        onnx_ir.serde.SerdeError: Something else in the model cannot be held.
    """
    for info in _declared(proto):
        if _has_map(info.type):
            text = base64.b64encode(info.type.SerializeToString(deterministic=True)).decode()
            info.metadata_props.add(key=_KEY, value=text)
            info.ClearField("type")
    return ir.from_proto(proto)


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """`onnx_ir.to_proto` that puts map types back.

    Raises:
        onnx_ir.serde.SerdeError: A tensor cannot be read.
    """
    proto = ir.to_proto(model)
    for info in _declared(proto):
        for index, entry in enumerate(info.metadata_props):
            if entry.key == _KEY:
                info.type.ParseFromString(base64.b64decode(entry.value))
                del info.metadata_props[index]
                break
    return proto


def has_maps(model: ir.Model) -> bool:
    """Whether a graph input or output of `model` is of a map type."""
    return any(_KEY in v.metadata_props for v in (*model.graph.inputs, *model.graph.outputs))


def _declared(proto: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    for scope in scopes(proto):
        yield from scope.value_info
        if isinstance(scope, onnx.GraphProto):
            yield from scope.input
            yield from scope.output


def _has_map(type_: onnx.TypeProto) -> bool:
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return _has_map(getattr(type_, kind).elem_type)
    return bool(kind == "map_type")
