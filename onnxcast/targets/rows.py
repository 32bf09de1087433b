"""The rows of a target's tables: conversions, matmul operands, pairs of them, with evidence."""

import dataclasses
import enum

from onnxcast.formats import Format

__all__ = ["NativeCast", "Operand", "Overflow", "Pair", "Rounding"]


class Overflow(enum.Enum):
    """What a conversion makes of values beyond the range of its result."""

    SATURATES = "saturates"
    WRAPS = "wraps"
    INFINITE = "gives infinity"
    UNKNOWN = "unknown"


class Rounding(enum.Enum):
    """How a conversion rounds what its result cannot hold."""

    EVEN = "rounds to even"
    AWAY = "rounds ties away"
    ZERO = "truncates"
    CHOSEN = "rounds as told"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class NativeCast:
    """One conversion that the hardware has.

    Attributes:
        source: Format before.
        target: Format after.
        overflow: What becomes of values beyond the range of `target`.
        rounding: How it rounds.
        evidence: Where this is said.
    """

    source: Format
    target: Format
    overflow: Overflow = Overflow.UNKNOWN
    rounding: Rounding = Rounding.UNKNOWN
    evidence: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """What a matmul operand of one format must become.

    Attributes:
        format: Of the operand.
        wanted: What is asked for; None for whatever it is. float32r stands for any width of it.
        gives: The format that it gets; None if the matmul takes it in no form.
        evidence: Where this is said.
    """

    format: Format
    wanted: Format | None
    gives: Format | None
    evidence: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Formats of the first and the second operand that a matmul multiplies.

    Attributes:
        first: Of the first operand, the stationary one.
        second: Of the second operand, the moving one.
        accumulator: Format in which it sums the products.
        evidence: Where this is said.
    """

    first: Format
    second: Format
    accumulator: Format
    evidence: str = ""
