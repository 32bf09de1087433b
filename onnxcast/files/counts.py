"""Tensors as a model declares them: sizes that can be, and as many numbers as these ask for."""

__all__ = ["check_counts", "stored_bytes"]

import math

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.files.protos import Parts, tensors

_MOST_ELEMENTS = 2**63 - 1

# Where numbers are that are not in raw_data: onnx.proto, TensorProto.
_NUMBER_FIELDS: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.COMPLEX64: "float_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.COMPLEX128: "double_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
    onnx.TensorProto.STRING: "string_data",
}
_OTHERS = "int32_data"
_BITS: dict[int, int] = {
    dtype.value: 0 if dtype is ir.DataType.STRING else dtype.bitwidth
    for dtype in ir.DataType
    if dtype is not ir.DataType.UNDEFINED
}
_IN_PAIRS = frozenset({onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128})


def check_counts(model: Parts, shown: str) -> None:
    """Check that every tensor's shape can be, and that it holds as many numbers as that says.

    Args:
        model: The model, before anything of it is used.
        shown: How messages name the model.

    Raises:
        InputError: A negative size, more elements than can be counted, a type that is none, or
            another count of bytes.
    """
    for tensor in tensors(model):
        count = _elements(tensor, shown)
        if tensor.data_type not in _BITS:
            raise InputError(
                f"{shown}: tensor {tensor.name!r} has element type {tensor.data_type}; wanted one "
                "that ONNX has; save the model again, or update onnxcast"
            )
        is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if tensor.data_type == onnx.TensorProto.STRING and (
            is_external or tensor.HasField("raw_data")
        ):
            raise InputError(
                f"{shown}: tensor {tensor.name!r} holds strings as raw or external data; wanted "
                "them in string_data; save the model again"
            )
        if not is_external:
            _check_numbers(tensor, count, shown)


def stored_bytes(tensor: onnx.TensorProto) -> int:
    """Return the bytes that type and shape ask for."""
    return _bytes_of(tensor, math.prod(tensor.dims))


def _elements(tensor: onnx.TensorProto, shown: str) -> int:
    count: int = math.prod(tensor.dims)
    if any(size < 0 for size in tensor.dims) or count > _MOST_ELEMENTS:
        raise InputError(
            f"{shown}: tensor {tensor.name!r} has shape {list(tensor.dims)}; wanted sizes from 0 "
            "up whose product is below 2**63; save the model again"
        )
    return count


def _check_numbers(tensor: onnx.TensorProto, count: int, shown: str) -> None:
    if tensor.HasField("raw_data"):
        found, wanted, unit = len(tensor.raw_data), _bytes_of(tensor, count), "bytes"
    else:
        field = _NUMBER_FIELDS.get(tensor.data_type, _OTHERS)
        found, wanted, unit = len(getattr(tensor, field)), _entries(tensor, count), field
    if found != wanted:
        raise InputError(
            f"{shown}: tensor {tensor.name!r} has {found} {unit}; wanted {wanted} for its type and "
            "shape; save the model again"
        )


def _bytes_of(tensor: onnx.TensorProto, count: int) -> int:
    return (_BITS[tensor.data_type] * count + 7) // 8


def _entries(tensor: onnx.TensorProto, count: int) -> int:
    """Return how many numbers stand for `count` elements where they are not raw."""
    if tensor.data_type in _IN_PAIRS:
        return 2 * count
    return _bytes_of(tensor, count) if 0 < _BITS[tensor.data_type] < 8 else count
