"""One conversion of numbers from a format to another, by arithmetic that onnxcast does not share.

Floats are held in float64, which has all values of every format here but int64; whole numbers in
Python's own. Beyond a float's range comes infinity, or its largest number where ONNX's Cast
saturates (8 bits and less). A whole number loses its high bits in a smaller integer type.
"""

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnxcast.formats import FLOAT32, Format, Kind

__all__ = ["all_values", "cast", "is_defined", "nearest"]

Array = npt.NDArray[Any]


def cast(values: Array, target: Format) -> Array:
    """`values`, float64 or objects (Python's whole numbers), in `target`."""
    if target.kind is Kind.FLOAT:
        if values.dtype == object:
            return np.array([nearest(Fraction(value), target) for value in values], np.float64)
        return _rounded(values, target)
    if values.dtype != object:
        values = np.array([int(value) for value in values], object)
    span, low = 2**target.bits, int(target.min)
    return np.array([(value - low) % span + low for value in values], object)


def is_defined(values: Array, target: Format) -> Array:
    """Where ONNX says what a Cast to `target` gives: a float beyond an integer's range is not."""
    if target.kind is Kind.FLOAT or values.dtype == object:
        return np.ones(len(values), np.bool_)
    whole = np.trunc(np.nan_to_num(values, nan=math.inf))
    inside: Array = (whole >= float(target.min)) & (whole <= float(target.max))
    return inside


def nearest(value: Fraction, target: Format) -> float:
    """The value of a float format nearest to a finite number, ties to even."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    kept = max(_significand(target, exponent), 1)
    step = Fraction(2) ** max(exponent - kept + 1, target.quantum)
    rounded = round(size / step) * step
    if rounded > Fraction(target.max):
        return math.copysign(target.max if target.bits <= 8 else math.inf, value)
    return math.copysign(float(rounded), value)


@np.errstate(all="ignore")
def _rounded(values: Array, target: Format) -> Array:
    _, exponents = np.frexp(values)
    kept = np.full(values.shape, target.significand)
    if target.taper:
        kept = np.array([max(_significand(target, exponent - 1), 1) for exponent in exponents])
    steps = np.maximum(exponents - kept, target.quantum)
    rounded = np.ldexp(np.rint(np.ldexp(values, -steps)), steps)
    beyond = np.abs(rounded) > target.max
    result: Array = np.where(
        beyond, np.copysign(target.max if target.bits <= 8 else math.inf, values), rounded
    )
    return np.where(np.isnan(values), np.nan, result)


def _significand(target: Format, exponent: int) -> int:
    if not target.taper:
        return target.significand
    size = abs(int(exponent))
    return next((bits for top, bits in target.taper if size <= top), 1)


def all_values(source: Format) -> Array:
    """All values of a format of up to 16 bits; of a wider one strides and every boundary."""
    if source.kind is Kind.FLOAT:
        return _floats(source)
    if source.bits <= 16:
        return np.array(range(int(source.min), int(source.max) + 1), object)
    near = [sign * 2**k + step for k in range(65) for sign in (1, -1) for step in range(-2, 3)]
    halves = [
        sign * (2**k + 2 ** (k - n)) + step
        for k in range(12, 64)
        for n in (8, 9, 11, 12)
        for sign in (1, -1)
        for step in (-1, 0, 1)
    ]
    low, high = int(source.min), int(source.max)
    strides = list(range(low, high, (high - low) // 4001))
    inside = sorted({value for value in (*near, *halves, *strides) if low <= value <= high})
    return np.array(inside, object)


def _floats(source: Format) -> Array:
    if source == FLOAT32:
        upper = np.arange(2**16, dtype=np.uint32) << np.uint32(16)
        lower = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
        with np.errstate(invalid="ignore"):  # signalling NaN
            found: Array = (upper[:, None] | lower).reshape(-1).view(np.float32).astype(np.float64)
        return found
    if source.name == "hifloat8":
        sizes = [math.ldexp(m, e) for e in range(-22, 16) for m in (1.0, 1.25, 1.5, 1.75, 1.125)]
        kept = sorted({nearest(Fraction(size), source) for size in sizes})
        return np.array([*kept, *(-each for each in kept), 0.0, math.inf, -math.inf, math.nan])
    width = np.uint16 if source.bits == 16 else np.uint8
    dtype = {
        "float16": np.dtype(np.float16),
        "bfloat16": np.dtype(ml_dtypes.bfloat16),
        "float8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
        "float8e5m2": np.dtype(ml_dtypes.float8_e5m2),
        "float4e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    }[source.name]
    with np.errstate(invalid="ignore"):
        bits = np.arange(2**source.bits, dtype=np.uint32).astype(width)
        every: Array = bits.view(dtype).astype(np.float64)
    return every
