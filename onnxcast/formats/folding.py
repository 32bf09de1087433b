"""When two Casts in a row amount to one or none, and what a narrowing round trip does to numbers.

What a Cast does with values that its target lacks is ONNX's Cast-13 and later.
"""

from onnxcast.formats.facts import FLOAT8E8M0, Format, Kind
from onnxcast.formats.order import contains

__all__ = ["folds", "is_identity", "is_round_trip", "losses"]

_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED)


def folds(source: Format, middle: Format, target: Format, *, saturates: bool = True) -> bool:
    """Whether a Cast from `source` over `middle` to `target` gives what a direct one gives.

    Args:
        source: Format of the value.
        middle: Format after the first Cast.
        target: Format after the second Cast; `source` means that no Cast is left.
        saturates: The second Cast's attribute, of meaning for float8 targets only.
    """
    if not contains(middle, source) or (
        middle == source and not is_identity(source, saturates=True)
    ):
        return False
    if target == source:
        return is_identity(source, saturates=saturates)
    if target.kind is Kind.STRING:
        # What is printed depends on the type, but for integers.
        return source.kind in _INTEGERS and middle.kind in _INTEGERS
    if target.kind in _INTEGERS:
        # Integers lose their high bits; what a float out of range becomes is undefined.
        return contains(target, source) or (source.kind in _INTEGERS and middle.kind in _INTEGERS)
    # What a negative number becomes in float8e8m0 is not specified.
    return target != FLOAT8E8M0 or not (source.signed or source.has_negative_zero)


def is_identity(format_: Format, *, saturates: bool) -> bool:
    """Whether a Cast of `format_` to itself keeps every value."""
    # A saturating Cast turns an infinity into the largest finite number.
    return not (format_.has_inf and format_.bits == 8 and saturates)


def is_round_trip(source: Format, middle: Format, target: Format) -> bool:
    """Whether two Casts only round a float, to one that lacks some of its values.

    A trip over an integer or a bool is arithmetic and no such trip.
    """
    floats = source.kind is Kind.FLOAT and middle.kind is Kind.FLOAT
    return floats and target == source and not contains(middle, source)


def losses(source: Format, middle: Format) -> str:
    """What is lost where a value of the float `source` is no longer rounded to `middle`."""
    lost = []
    if middle.significand < source.significand:
        bits = "bit" if middle.significand == 1 else "bits"
        lost.append(f"the rounding to {middle.significand} significand {bits}")
    if 2 * middle.max <= source.max:  # a whole exponent, not the last bits of the largest number
        lost.append(f"the limit of {middle.max:g}")
    if middle.emin > source.emin:
        lost.append(f"the underflow below 2**{middle.smallest}")
    if (middle.signed, middle.has_negative_zero) < (source.signed, source.has_negative_zero):
        lost.append("what becomes of signs")
    return " and ".join(lost) or "what becomes of infinities and NaN"
