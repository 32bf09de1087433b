"""The number formats and the values each one holds.

A numeric format holds 0 and every ±m·2**e with m < 2**significand and e >= quantum that lies
between its `min` and `max`. Integers are the case quantum = 0. Everything else is computed from
these facts. Their sources:

- IEEE 754-2019, 3.6: float16, float32, float64; bfloat16 is laid out by the same rule.
- OCP OFP8 1.0: float8e4m3fn and float8e5m2. OCP Microscaling 1.0: float6, float4 and float8e8m0.
- Noune et al., arXiv 2206.02915: the fnuz types (one zero, one NaN, no infinity).
- Luo et al., arXiv 2409.16626: hifloat8, whose significand is shorter where exponents are large.
- ONNX TensorProto.DataType: the rest, and all names but float32 and float64 in lower case.
"""

import dataclasses
import difflib
import enum

import onnx_ir as ir

from onnxcast.errors import InputError

__all__ = [
    "BFLOAT16",
    "BOOL",
    "COMPLEX64",
    "COMPLEX128",
    "FLOAT4E2M1",
    "FLOAT6E2M3",
    "FLOAT6E3M2",
    "FLOAT8E4",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "FLOAT8E8M0",
    "FLOAT16",
    "FLOAT32",
    "FLOAT32R_BITS",
    "FLOAT64",
    "FORMATS",
    "HIFLOAT8",
    "INT2",
    "INT4",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "UINT2",
    "UINT4",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "Format",
    "Kind",
    "by_name",
    "float32r",
    "of",
]


class Kind(enum.Enum):
    """What the values of a format are."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"
    COMPLEX = "complex"
    STRING = "string"


@dataclasses.dataclass(frozen=True)
class Format:
    """A number format. A complex one states the facts of its components.

    Attributes:
        name: ONNX's name in lower case; FLOAT is "float32" and DOUBLE "float64".
        kind: What its values are.
        bits: Bits of storage an element takes, unpacked where ONNX packs (0 for string).
        dtype: The ONNX element type; None for what only hardware (or a newer onnx_ir) knows.
        significand: Bits of the significand, the hidden one included; of an integer its value
            bits, without the sign.
        emin: Exponent of the smallest normal value; an integer's small values count as subnormal.
        min: The lowest finite value; an int for integers, so that it is exact.
        max: The highest finite value; an int for integers.
        has_inf: Whether it has both infinities.
        has_nan: Whether it has a NaN.
        has_negative_zero: Whether it tells -0 from +0.
        subnormals: Whether there are values between 0 and 2**emin.
        taper: For each range of exponents, by its largest magnitude, the bits of the significand,
            if they are not the same for all; between `quantum` and the last they are 1.
    """

    name: str
    kind: Kind
    bits: int
    dtype: ir.DataType | None
    significand: int
    emin: int
    min: float
    max: float
    has_inf: bool = False
    has_nan: bool = False
    has_negative_zero: bool = False
    subnormals: bool = True
    taper: tuple[tuple[int, int], ...] = ()

    def __eq__(self, other: object) -> bool:
        # Formats are compared for every value of a model, and most of them are the same object.
        return self is other or (isinstance(other, Format) and vars(self) == vars(other))

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def quantum(self) -> int:
        """The exponent of the smallest step between two values."""
        return self.emin - self.significand + 1

    @property
    def smallest(self) -> int:
        """The exponent of the smallest value above zero (1 of an integer)."""
        return self.quantum if self.subnormals else self.emin

    def significand_at(self, exponent: int) -> int:
        """Bits of the significand of values from 2**exponent up to twice that."""
        kept = min(self.significand, exponent - self.quantum + 1)
        if not self.taper:
            return kept
        return min(kept, next((bits for top, bits in self.taper if abs(exponent) <= top), 1))

    @property
    def signed(self) -> bool:
        """Whether it has values below zero."""
        return self.min < 0

    def __str__(self) -> str:
        return self.name


def _element_type(name: str) -> ir.DataType | None:
    onnx_name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper())
    return ir.DataType.__members__.get(onnx_name)


def _ieee(name: str, kind: Kind, bits: int, significand: int) -> Format:
    """State a float laid out by IEEE 754's rule, where two widths give all the rest."""
    width = bits // 2 if kind is Kind.COMPLEX else bits
    emax = 2 ** (width - significand - 1) - 1
    top = (2 - 2.0 ** (1 - significand)) * 2.0**emax
    dtype, emin = _element_type(name), 1 - emax
    return Format(name, kind, bits, dtype, significand, emin, -top, top, True, True, True)


def _finite(  # noqa: PLR0913 - the columns of the table below
    name: str,
    bits: int,
    significand: int,
    emin: int,
    top: float,
    *,
    has_nan: bool = False,
    has_negative_zero: bool = False,
) -> Format:
    """State a signed float without infinities."""
    dtype = _element_type(name)
    specials = (False, has_nan, has_negative_zero)
    return Format(name, Kind.FLOAT, bits, dtype, significand, emin, -top, top, *specials)


def _integer(name: str, kind: Kind, bits: int, significand: int) -> Format:
    """State an integer of so many value bits, in two's complement if signed."""
    low = -(1 << significand) if kind is Kind.SIGNED else 0
    top = (1 << significand) - 1
    return Format(name, kind, bits, _element_type(name), significand, significand - 1, low, top)


# Bits of storage, bits of significand.
FLOAT64 = _ieee("float64", Kind.FLOAT, 64, 53)
FLOAT32 = _ieee("float32", Kind.FLOAT, 32, 24)
FLOAT16 = _ieee("float16", Kind.FLOAT, 16, 11)
BFLOAT16 = _ieee("bfloat16", Kind.FLOAT, 16, 8)
FLOAT8E5M2 = _ieee("float8e5m2", Kind.FLOAT, 8, 3)
COMPLEX64 = _ieee("complex64", Kind.COMPLEX, 64, 24)
COMPLEX128 = _ieee("complex128", Kind.COMPLEX, 128, 53)

# Bits of storage, bits of significand, exponent of the smallest normal, largest value.
FLOAT8E4M3FN = _finite("float8e4m3fn", 8, 4, -6, 448.0, has_nan=True, has_negative_zero=True)
FLOAT8E4 = dataclasses.replace(FLOAT8E4M3FN, name="float8e4", min=-240.0, max=240.0)
"""Neuron's legacy type: float8e4m3fn's values up to 240, in its bits; ONNX has no name for it."""
FLOAT8E4M3FNUZ = _finite("float8e4m3fnuz", 8, 4, -7, 240.0, has_nan=True)
FLOAT8E5M2FNUZ = _finite("float8e5m2fnuz", 8, 3, -15, 57344.0, has_nan=True)
FLOAT6E2M3 = _finite("float6e2m3", 6, 4, 0, 7.5, has_negative_zero=True)
FLOAT6E3M2 = _finite("float6e3m2", 6, 3, -2, 28.0, has_negative_zero=True)
FLOAT4E2M1 = _finite("float4e2m1", 4, 2, 0, 6.0, has_negative_zero=True)
FLOAT8E8M0 = dataclasses.replace(  # powers of two only: neither zero nor sign
    _finite("float8e8m0", 8, 1, -127, 2.0**127, has_nan=True), min=2.0**-127, subnormals=False
)

HIFLOAT8 = dataclasses.replace(
    _finite("hifloat8", 8, 4, -19, 32768.0, has_nan=True),
    has_inf=True,
    taper=((3, 4), (7, 3), (15, 2)),
)
"""Ascend's 8-bit float; ONNX has no name for it. One zero; powers of two from 2**-22 on."""

# Bits of storage, bits of value.
INT64 = _integer("int64", Kind.SIGNED, 64, 63)
INT32 = _integer("int32", Kind.SIGNED, 32, 31)
INT16 = _integer("int16", Kind.SIGNED, 16, 15)
INT8 = _integer("int8", Kind.SIGNED, 8, 7)
INT4 = _integer("int4", Kind.SIGNED, 4, 3)
INT2 = _integer("int2", Kind.SIGNED, 2, 1)
UINT64 = _integer("uint64", Kind.UNSIGNED, 64, 64)
UINT32 = _integer("uint32", Kind.UNSIGNED, 32, 32)
UINT16 = _integer("uint16", Kind.UNSIGNED, 16, 16)
UINT8 = _integer("uint8", Kind.UNSIGNED, 8, 8)
UINT4 = _integer("uint4", Kind.UNSIGNED, 4, 4)
UINT2 = _integer("uint2", Kind.UNSIGNED, 2, 2)
BOOL = _integer("bool", Kind.BOOL, 8, 1)
STRING = Format("string", Kind.STRING, 0, _element_type("string"), 0, 0, 0, 0)

_FLOATS = (FLOAT64, FLOAT32, FLOAT16, BFLOAT16, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT8E4M3FN)
_SMALL_FLOATS = (FLOAT8E4M3FNUZ, FLOAT8E8M0, FLOAT6E2M3, FLOAT6E3M2, FLOAT4E2M1)
_SIGNED = (INT64, INT32, INT16, INT8, INT4, INT2)
_UNSIGNED = (UINT64, UINT32, UINT16, UINT8, UINT4, UINT2)
_OTHERS = (BOOL, COMPLEX64, COMPLEX128, STRING)

FORMATS: tuple[Format, ...] = tuple(
    known
    for known in (*_FLOATS, *_SMALL_FLOATS, *_SIGNED, *_UNSIGNED, *_OTHERS)
    if known.dtype is not None
)
"""Every ONNX element type that the installed onnx_ir knows."""

_BY_DTYPE = {known.dtype: known for known in FORMATS}


FLOAT32R_BITS = 11
"""Explicit significand bits of the usual float32r."""


def float32r(explicit_bits: int = FLOAT32R_BITS) -> Format:
    """The float32 of a matrix unit that keeps only the top bits of the significand.

    It is stored in 4 bytes and has float32's exponents, infinities, NaN and subnormals.

    Args:
        explicit_bits: Bits of the significand kept after the binary point, 1 to 23.

    Raises:
        ValueError: There is no such format.
    """
    if not 1 <= explicit_bits <= 23:
        raise ValueError(f"float32r keeps 1 to 23 explicit significand bits, not {explicit_bits}")
    significand = explicit_bits + 1
    top = (2 - 2.0**-explicit_bits) * 2.0**127
    name = "float32r" if explicit_bits == FLOAT32R_BITS else f"float32r{explicit_bits}"
    return dataclasses.replace(
        FLOAT32, name=name, dtype=None, significand=significand, min=-top, max=top
    )


def of(dtype: ir.DataType) -> Format:
    """The format of an ONNX element type.

    Raises:
        InputError: The type is undefined, or newer than this table.
    """
    if dtype not in _BY_DTYPE:
        raise InputError(f"element type {dtype} has no known number format; give the tensor one")
    return _BY_DTYPE[dtype]


def by_name(name: str) -> Format:
    """The format of that name; "float32r" has 11 explicit bits, "float32r10" has 10.

    Raises:
        InputError: No format has this name; the text lists those that exist, the nearest first.
    """
    named = (*FORMATS, FLOAT8E4, HIFLOAT8)
    known = {each.name: each for each in (*named, *map(float32r, range(23, 0, -1)))}
    if name not in known:
        known = {each.name: each for each in (*named, float32r())}
        likeness = {each: difflib.SequenceMatcher(None, name, each).ratio() for each in known}
        nearest = sorted(known, key=lambda each: -likeness[each])
        raise InputError(f"unknown number format {name!r}; use one of {', '.join(nearest)}")
    return known[name]
