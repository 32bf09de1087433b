"""Raise a model's opset as far as a number format needs, and no further."""

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError, RefusedError
from onnxcast.files import tensor_slots
from onnxcast.graph.schemas import Schemas, signature_of, type_string

__all__ = ["import_onnx", "onnx_opset", "opset_for_cast", "raise_opset"]

# Where a model has no ONNX op yet, a Cast may as well know every 16-bit type.
_FIRST_WITH_BFLOAT16 = 13


def onnx_opset(model: ir.Model) -> int | None:
    """Opset of the ONNX domain that `model` imports under either of its names; None if none."""
    return Schemas(model).version(ir.node("Cast", []))


def opset_for_cast(dtype: ir.DataType, current: int) -> int:
    """The least opset from `current` on at which Cast takes `dtype` both as source and target."""
    wanted = ir.TensorType(dtype)
    for version in range(current, onnx.defs.onnx_opset_version() + 1):
        signature = signature_of("", "Cast", version)
        if signature is None:
            continue
        to = signature.schema.attributes["to"].type
        legal = signature.allows("T1", wanted) and signature.allows("T2", wanted)
        if legal and to == onnx.defs.OpSchema.AttrType.INT:
            return version
    raise RefusedError(f"no opset of the installed onnx has a Cast to {type_string(wanted)}")


def import_onnx(model: ir.Model, dtype: ir.DataType) -> None:
    """Let `model`, which may hold ops of other domains only, import an opset with Casts."""
    if onnx_opset(model) is None:
        model.opset_imports[""] = opset_for_cast(dtype, _FIRST_WITH_BFLOAT16)


def raise_opset(model: ir.Model, version: int) -> ir.Model:
    """`model` at opset `version`, by onnx's version converter; the same object if it is there.

    A model without ONNX ops only gets the import.

    Raises:
        InputError: The model is at a later opset, which cannot be lowered.
        RefusedError: The converter cannot raise this model, with its cause.
    """
    current = onnx_opset(model)
    if current == version:
        return model
    if current is None:
        model.opset_imports[""] = version  # nothing is there to convert
        return model
    if current > version:
        raise InputError(
            f"opset {version} wanted, the model is at {current}: an opset cannot be lowered; "
            "give a later one or keep it"
        )
    try:
        raised = onnx.version_converter.convert_version(ir.to_proto(model), version)
        onnx.checker.check_model(raised)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RefusedError(
            f"opset {version} is needed, the model is at {current} and the version converter "
            f"does not raise it ({reason}): export it at opset {version}"
        ) from None
    result = ir.from_proto(raised)
    result.metadata_props.update(model.metadata_props)
    folders = {tensor.name: tensor.base_dir for tensor in _external(model)}
    for tensor in _external(result):
        tensor.base_dir = folders[tensor.name]
    return result


def _external(model: ir.Model) -> Iterator[ir.ExternalTensor]:
    """The tensors whose data is in another file."""
    for slot in tensor_slots(model):
        if isinstance(slot.tensor, ir.ExternalTensor):
            yield slot.tensor
