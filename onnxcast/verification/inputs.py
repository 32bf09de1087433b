"""What a model asks of its inputs, and whether a sample gives it.

Every fault of a sample is an `InputError` that names the input, what was found and what the model
wants, because onnxruntime's own messages come late and some faults never get one.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.verification.bounds import index_bound, is_length
from onnxcast.verification.values import Array, Feeds, Value, is_foreign

__all__ = ["InputSpec", "check_sample", "format_shape", "input_specs"]

_MAY_BE_INDICES = (ir.DataType.INT32, ir.DataType.INT64)


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """What a model asks of one input.

    Attributes:
        name: Its name.
        dtype: The element type of a tensor; None for a sequence or optional, or if not stated.
        shape: A size, a symbolic name or None for each dimension; None for an unknown rank.
        kind: What it is.
        required: False if the model has a value of its own, an initializer of the same name.
        bound: The number of rows that it, being an index, chooses from; None if that is not known.
        length: Whether it says how long sequences are.
    """

    name: str
    dtype: ir.DataType | None
    shape: tuple[int | str | None, ...] | None
    kind: Literal["tensor", "sequence", "optional"] = "tensor"
    required: bool = True
    bound: int | None = None
    length: bool = False


def input_specs(model: ir.Model) -> list[InputSpec]:
    """What a model asks of each of its inputs, in order."""
    return [_spec(value, model.graph) for value in model.graph.inputs]


def check_sample(where: str, sample: Mapping[str, Value], inputs: Sequence[InputSpec]) -> Feeds:
    """Checks a sample against what the model asks for.

    Args:
        where: What the sample is called in messages.
        sample: A value for each input by name.
        inputs: What the model asks for.

    Returns:
        The sample in the order of `inputs`; strings as unicode arrays, and float32 given for a type
        that numpy lacks rounded to it.

    Raises:
        InputError: An input is missing, unknown, or of another element type, rank or fixed size.
    """
    names = [spec.name for spec in inputs]
    unknown = [name for name in sample if name not in names]
    if unknown:
        known = ", ".join(names)
        raise InputError(f"{where}: the model has no input {unknown[0]!r}; its inputs are {known}")
    missing = [spec.name for spec in inputs if spec.required and spec.name not in sample]
    if missing:
        found = ", ".join(sample) or "none"
        raise InputError(f"{where}: input {missing[0]!r} is missing; it has {found}")
    given = [spec for spec in inputs if spec.name in sample]
    return {spec.name: _conform(where, spec, sample[spec.name]) for spec in given}


def _spec(value: ir.Value, graph: ir.Graph) -> InputSpec:
    name = value.name or ""
    required = name not in graph.initializers
    if isinstance(value.type, ir.SequenceType):
        return InputSpec(name, None, None, "sequence", required)
    if isinstance(value.type, ir.OptionalType):
        return InputSpec(name, None, None, "optional", required)
    shape = None if value.shape is None else tuple(map(_dimension, value.shape))
    if value.dtype not in _MAY_BE_INDICES:
        return InputSpec(name, value.dtype, shape, required=required)
    bound, length = index_bound(value), is_length(value)
    return InputSpec(name, value.dtype, shape, "tensor", required, bound, length)


def _dimension(dimension: int | ir.SymbolicDim) -> int | str | None:
    if isinstance(dimension, ir.SymbolicDim):
        return dimension.value or None
    # Some exporters write -1 for a size they do not know.
    return dimension if dimension >= 0 else None


def _conform(where: str, spec: InputSpec, value: Value) -> Value:
    """Returns a value as the input takes it."""
    where = f"{where}: input {spec.name!r}"
    if isinstance(value, list | tuple):
        if spec.kind == "tensor":
            raise InputError(f"{where} is a list; the model wants one array")
        return [_typed(where, None, np.asarray(item)) for item in value]
    if value is None and spec.kind == "optional":
        return None
    if value is None or spec.kind == "sequence":
        wanted = "a list of arrays" if spec.kind == "sequence" else "an array"
        raise InputError(f"{where} is one {type(value).__name__}; the model wants {wanted}")
    array = _typed(where, spec.dtype, np.asarray(value))
    if spec.shape is not None:
        _check_shape(where, array.shape, spec.shape)
    return array


def _typed(where: str, dtype: ir.DataType | None, array: Array) -> Array:
    """Returns an array in the element type wanted, if it is that type's already in all but form."""
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    if array.dtype.kind == "O":
        raise InputError(f"{where} holds Python objects; the model wants numbers or strings")
    found = "string" if array.dtype.kind == "U" else str(array.dtype)
    wanted = found if dtype is None else _numpy_name(dtype)
    if found == wanted:
        return array
    if dtype is not None and _only_in_ml_dtypes(dtype) and array.dtype == np.float32:
        return formats.to_storage(array, formats.of(dtype))
    raise InputError(f"{where} is {found}, the model wants {wanted}; convert it")


def _numpy_name(dtype: ir.DataType) -> str:
    return "string" if dtype is ir.DataType.STRING else str(dtype.numpy())


def _only_in_ml_dtypes(dtype: ir.DataType) -> bool:
    """Whether it is a float that an npz file cannot hold, so that users have only float32."""
    return dtype.is_floating_point() and is_foreign(dtype.numpy())


def _check_shape(where: str, found: tuple[int, ...], wanted: tuple[int | str | None, ...]) -> None:
    shapes = f"shape {format_shape(found)}; the model wants {format_shape(wanted)}"
    if len(found) != len(wanted):
        raise InputError(f"{where} has rank {len(found)}, {shapes}")
    for axis, (size, fixed) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(fixed, int) and size != fixed:
            raise InputError(f"{where} has size {size} on axis {axis}, {shapes}")


def format_shape(shape: Sequence[int | str | None]) -> str:
    """A shape as users write it, `[N,3,?]`."""
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"
