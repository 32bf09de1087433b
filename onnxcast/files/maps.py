"""Map types, which `onnx_ir` cannot hold, carried through it on the value that has one.

Only ``ai.onnx.ml`` gives maps (ZipMap), and nothing of onnxcast touches one: while a model is in
memory the type is in the value's metadata, and its declared type is empty.
"""

__all__ = ["from_proto", "put_back", "to_proto"]

import base64
from collections.abc import Iterator

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no stubs

from onnxcast.errors import InputError
from onnxcast.files.protos import scopes

_KEY = "onnxcast.map_type"


def from_proto(proto: onnx.ModelProto) -> ir.Model:
    """`onnx_ir.from_proto` that keeps map types; `proto` is used up.

    Raises:
        onnx_ir.serde.SerdeError: Something else in the model cannot be held.
        InputError: The metadata in which types are kept is there already.
    """
    for info in _declared(proto) if _may_have(proto) else ():
        if any(entry.key == _KEY for entry in info.metadata_props):
            raise _foreign(info, "only a model in memory has")
        if _has_map(info.type):
            text = base64.b64encode(info.type.SerializeToString(deterministic=True)).decode()
            info.metadata_props.add(key=_KEY, value=text)
            info.ClearField("type")
    return ir.from_proto(proto)


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """`onnx_ir.to_proto` that puts map types back.

    Raises:
        onnx_ir.serde.SerdeError: A tensor cannot be read.
        InputError: The metadata in which types are kept is not ours.
    """
    return put_back(ir.to_proto(model))


def put_back(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, in which types of values were written by `onnx_ir`, with those that are maps.

    Raises:
        InputError: The metadata in which types are kept is not ours.
    """
    for info in _declared(proto) if _may_have(proto) else ():
        for index, entry in enumerate(info.metadata_props):
            if entry.key == _KEY:
                _parse(info, entry.value)
                del info.metadata_props[index]
                break
    return proto


def _parse(info: onnx.ValueInfoProto, text: str) -> None:
    try:
        info.type.ParseFromString(base64.b64decode(text))
    except (ValueError, DecodeError):
        raise _foreign(info, "is no type") from None


def _foreign(info: onnx.ValueInfoProto, why: str) -> InputError:
    return InputError(f"value {info.name!r} has metadata {_KEY}, which {why}: remove it")


def _may_have(proto: onnx.ModelProto) -> bool:
    """Whether maps may be in `proto`: no op of ONNX itself has one. To look at all takes longer."""
    imports = (proto.opset_import, *(function.opset_import for function in proto.functions))
    if any(each.domain not in ("", "ai.onnx") for opsets in imports for each in opsets):
        return True
    return any(
        _has_map(info.type) or any(entry.key == _KEY for entry in info.metadata_props)
        for info in (*proto.graph.input, *proto.graph.output)
    )


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
