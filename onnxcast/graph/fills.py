"""ConstantOfShape, which fills a tensor with a number of the type that it holds."""

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.schemas import Schemas

__all__ = ["fill_value", "retyped_fill"]


def fill_value(node: ir.Node) -> npt.NDArray[np.float32] | None:
    """The float32 number, one element, that a ConstantOfShape fills its result with.

    None for any other node, another type, and what a function's caller decides.
    """
    if node.op_type != "ConstantOfShape" or node.domain not in ("", "ai.onnx"):
        return None
    value = node.attributes.get("value")
    if value is None:
        return np.zeros(1, np.float32)
    tensor = None if value.is_ref() else value.as_tensor()
    if tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    return np.asarray(tensor.numpy(), np.float32)


def retyped_fill(node: ir.Node, dtype: ir.DataType, schemas: Schemas) -> ir.Attr | None:
    """The attribute that lets `node` fill with the same number, cast to `dtype`, of 16 bits.

    None if it is no fill of float32, if its schema does not allow the type, or if a finite number
    would become infinite. In 8 bits no op would compute with it.
    """
    value, signature = fill_value(node), schemas.signature(node)
    variable = None if signature is None else signature.result(0)
    if value is None or signature is None or variable is None or dtype.bitwidth != 16:
        return None
    narrow = formats.of(dtype)
    rounded = formats.round_to(value, narrow)
    kept = np.array_equal(np.isfinite(rounded), np.isfinite(value))
    if not (kept and signature.allows(variable, ir.TensorType(dtype))):
        return None
    return ir.AttrTensor("value", ir.tensor(formats.to_storage(rounded, narrow), dtype=dtype))
