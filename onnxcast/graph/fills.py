"""Ops that fill a tensor of a type that an attribute names, with a value that it holds."""

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.schemas import Schemas

__all__ = ["fill_values", "retyped_fill"]


def fill_values(node: ir.Node) -> np.ndarray | None:
    """The float32 numbers that a ConstantOfShape or an EyeLike fills its result with, one of each.

    None for any other node, another type, and what a function's caller decides.
    """
    if node.domain not in ("", "ai.onnx") or any(a.is_ref() for a in node.attributes.values()):
        return None
    if node.op_type == "ConstantOfShape":
        value = node.attributes.get("value")
        if value is None:
            return np.zeros(1, np.float32)
        tensor = value.as_tensor()
        return tensor.numpy() if tensor.dtype == ir.DataType.FLOAT else None
    if node.op_type == "EyeLike":
        dtype = node.attributes.get("dtype")
        named = dtype is not None and dtype.as_int() == ir.DataType.FLOAT
        return np.array([0, 1], np.float32) if named else None
    return None


def retyped_fill(node: ir.Node, dtype: ir.DataType, schemas: Schemas) -> ir.Attr | None:
    """The attribute that lets `node` fill with the same numbers, cast to `dtype`.

    None if it is no fill of float32, if its schema does not allow the type, or if a finite number
    would become infinite.
    """
    values, signature = fill_values(node), schemas.signature(node)
    variable = None if signature is None else signature.result(0)
    if values is None or signature is None or variable is None:
        return None
    narrow = formats.of(dtype)
    rounded = formats.round_to(values, narrow)
    kept = np.array_equal(np.isfinite(rounded), np.isfinite(values))
    if not (kept and signature.allows(variable, ir.TensorType(dtype))):
        return None
    if node.op_type == "EyeLike":
        return ir.AttrInt64("dtype", dtype)
    return ir.AttrTensor("value", ir.tensor(formats.to_storage(rounded, narrow), dtype=dtype))
