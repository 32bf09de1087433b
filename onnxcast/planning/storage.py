"""Values rounded to a format and read in float32: a Cast down and one up, or what is that already.

After (float8e4m3fn)::

    x_float8e4m3fn = Cast <to = 17, saturate = 1> (x)
    x_float8e4m3fn_float32 = Cast <to = 1> (x_float8e4m3fn)

Where the target's format ends before the ONNX type does, a Clip to its range comes first.
"""

import sys

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import Casts, cast_target, constant_of, numbers_of
from onnxcast.graph.types import ElementTypes
from onnxcast.policy import Meaning, has_meaning

__all__ = ["Rounded", "fills_type", "limits_to"]

_FLOAT = ir.DataType.FLOAT


class Rounded:
    """Rounded copies of values, one per value and format."""

    def __init__(self, casts: Casts, types: ElementTypes) -> None:
        self._casts = casts
        self._types = types
        self._clipped: dict[tuple[ir.Value, Format], ir.Value] = {}

    def low(self, value: ir.Value, format_: Format) -> ir.Value:
        """`value` in the element type of `format_`."""
        assert format_.dtype is not None
        if fills_type(format_) or constant_of(value) is not None:
            return self._casts.of(value, format_.dtype)
        key = (value, format_)
        if key not in self._clipped:
            self._clipped[key] = self._casts.clip(value, format_.min, format_.max)
        return self._casts.of(self._clipped[key], format_.dtype)

    def up(self, value: ir.Value, format_: Format) -> ir.Value:
        """`value` rounded to `format_`, in float32."""
        return self._casts.of(self.low(value, format_), _FLOAT)

    def is_rounded(self, value: ir.Value, format_: Format) -> bool:
        """Whether `value` is a Cast up of values that `format_` holds."""
        producer = value.producer()
        source = producer.inputs[0] if producer is not None and producer.inputs else None
        if producer is None or cast_target(producer) != _FLOAT or source is None:
            return False
        dtype = self._types.dtype(source)
        if dtype is None:
            return False
        if formats.contains(format_, formats.of(dtype)):
            return True
        return dtype == format_.dtype and _is_limited(source, format_)


def fills_type(format_: Format) -> bool:
    """Whether `format_` has all values of its element type, or is no element type at all."""
    return format_.dtype is None or format_ == formats.of(format_.dtype)


def _is_limited(value: ir.Value, format_: Format) -> bool:
    """Whether a value in the element type of `format_` was clipped to its range."""
    producer: ir.Node | None = None
    while constant_of(value) is None:
        producer = value.producer()
        if producer is None or not producer.inputs or producer.inputs[0] is None:
            return False
        value = producer.inputs[0]
        if not has_meaning(producer, Meaning.CARRIER):
            break
    if constant_of(value) is not None:
        numbers = numbers_of(value, sys.maxsize)
        if numbers is None:
            return False
        array = np.abs(np.asarray(numbers, dtype=np.float32))
        return bool(np.nanmax(array, initial=0.0) <= format_.max)
    clip = value.producer()
    cast = producer is not None and cast_target(producer) == format_.dtype
    return cast and clip is not None and limits_to(clip, format_)


def limits_to(node: ir.Node, format_: Format) -> bool:
    """Whether `node` clips its operand to the range of `format_`."""
    if node.op_type != "Clip" or node.domain != "":
        return False
    limits = [constant_of(limit) for limit in node.inputs[1:]]
    found = [limit.numpy().tolist() for limit in limits if limit is not None]
    return found == [format_.min, format_.max]
