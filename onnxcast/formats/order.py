"""Which format holds all values of another, computed from the facts and never listed."""

import functools
import math

from onnxcast.formats.facts import FORMATS, Format, Kind

__all__ = ["contains", "join"]


def contains(wide: Format, narrow: Format) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that a Cast to it is exact.

    The zeros, infinities and NaN count as values; NaN payloads do not. A real value counts as the
    complex one without imaginary part; a string is no number's value.
    """
    if Kind.STRING in (wide.kind, narrow.kind):
        return wide == narrow
    if narrow.kind is Kind.COMPLEX and wide.kind is not Kind.COMPLEX:
        return False
    return (
        wide.significand >= narrow.significand
        and wide.quantum <= narrow.quantum
        and wide.smallest <= narrow.smallest
        and wide.min <= narrow.min
        and wide.max >= narrow.max
        and wide.has_inf >= narrow.has_inf
        and wide.has_nan >= narrow.has_nan
        and wide.has_negative_zero >= narrow.has_negative_zero
        and (not wide.taper or _holds_by_exponent(wide, narrow))
    )


def _holds_by_exponent(wide: Format, narrow: Format) -> bool:
    """Whether `wide` has the bits that values of `narrow` need, at each exponent of its own."""
    top = math.frexp(max(narrow.max, -narrow.min))[1] - 1
    if narrow.kind is Kind.SIGNED:
        top -= 1  # its lowest value is a power of two, which one bit holds
    return all(
        wide.significand_at(exponent) >= narrow.significand_at(exponent)
        for exponent in range(narrow.smallest, top + 1)
    )


@functools.cache
def join(a: Format, b: Format) -> Format | None:
    """The least format that contains both, or None where no least one exists.

    "Least" is by `contains`, among the ONNX formats of one class: complex if either operand is,
    else float if either is, else integers and bool. A float32r is a candidate only as an operand.
    """
    if a == b:
        return a
    kinds = _join_kinds(a, b)
    bounds = [
        each
        for each in (*FORMATS, a, b)
        if each.kind in kinds and contains(each, a) and contains(each, b)
    ]
    return next((least for least in bounds if all(contains(each, least) for each in bounds)), None)


def _join_kinds(a: Format, b: Format) -> tuple[Kind, ...]:
    for kind in (Kind.COMPLEX, Kind.FLOAT):
        if kind in (a.kind, b.kind):
            return (kind,)
    return (Kind.SIGNED, Kind.UNSIGNED, Kind.BOOL)
