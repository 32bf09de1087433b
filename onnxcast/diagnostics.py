"""Findings: what a pass did or left alone, with a stable code and the IR names it is about.

A finding is collected, never raised. Passes return them, the report prints them.
"""

import dataclasses
import enum
from collections.abc import Mapping

__all__ = ["EXPLAINED", "Code", "Diagnostic"]


class Code(enum.Enum):
    """The kinds of finding; the value is the code printed, the name is its meaning."""

    CAST_ADDED = "OC101"
    CAST_FOLDED = "OC102"
    CAST_IDENTITY_DROPPED = "OC103"
    CAST_MERGED = "OC104"
    CAST_MOVED = "OC105"
    CAST_ROUNDING_DROPPED = "OC106"
    INITIALIZER_SHRUNK = "OC201"
    INITIALIZER_KEPT = "OC202"
    MASK_CLAMPED = "OC203"
    VALUE_SATURATES = "OC204"
    INITIALIZER_COPIED = "OC205"
    FILL_RETYPED = "OC206"
    OPSET_RAISED = "OC301"
    CAST_LEGALISED = "OC401"
    CAST_LOWERED = "OC402"
    CAST_ILLEGAL = "OC403"
    OPERANDS_NOT_TAKEN = "OC404"


EXPLAINED: Mapping[Code, str] = {
    Code.CAST_ADDED: (
        "The plan asks for a conversion here. One Cast serves all readers of the value in the "
        "same scope; where it is absorbed into a constant, no node is left."
    ),
    Code.CAST_FOLDED: (
        "Two Casts in a row became one or none, because the format between them holds every value "
        "of the first, so that no value changes."
    ),
    Code.CAST_IDENTITY_DROPPED: "A Cast to the type that its operand has already does nothing.",
    Code.CAST_MERGED: (
        "A value was cast to the same type more than once; the readers share one Cast."
    ),
    Code.CAST_MOVED: (
        "A Cast went past an op that only moves elements, where that removes a pair of Casts and "
        "costs no bytes."
    ),
    Code.CAST_ROUNDING_DROPPED: (
        "With --cast-folding drop-narrowing: a round trip to a narrower format was removed. "
        "Values are no longer rounded there, so they change."
    ),
    Code.INITIALIZER_SHRUNK: (
        "All readers want the constant in the same narrow format, so it is stored in it, without a "
        "Cast. The bits are those that a Cast gives."
    ),
    Code.INITIALIZER_KEPT: (
        "The constant is cast to a narrow format, but stays wide and the Cast stays behind it; "
        "the message says what is in the way."
    ),
    Code.MASK_CLAMPED: (
        "With --clamp-masks: a constant below the range of the format became its lowest finite "
        "number instead of -inf."
    ),
    Code.VALUE_SATURATES: (
        "The format has no infinities, so what is beyond its range becomes its largest number, "
        "and on the samples some elements are."
    ),
    Code.INITIALIZER_COPIED: "A small constant is read wide and narrow, and stored once for each.",
    Code.FILL_RETYPED: (
        "A ConstantOfShape gives the narrow format itself instead of through a Cast."
    ),
    Code.OPSET_RAISED: (
        "The format needs a later opset. The raised model gave the same bits as the source on the "
        "samples. --opset keep refuses instead."
    ),
    Code.CAST_LEGALISED: (
        "The target has no such conversion; a chain of those that it has stands in its place. Its "
        "labels in the report tell whether values may differ."
    ),
    Code.CAST_LOWERED: (
        "The target converts no bool: Not(Equal(x, 0)) or Where(b, 1, 0) stands in the place of "
        "the Cast, exact for every value."
    ),
    Code.CAST_ILLEGAL: (
        "With --illegal-casts keep: the target cannot do this Cast, not even in several "
        "conversions."
    ),
    Code.OPERANDS_NOT_TAKEN: (
        "A MatMul or Conv has operands of types that the target does not multiply with each "
        "other; its compiler may convert them or refuse."
    ),
}
"""What each kind of finding means at more length."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: Its kind.
        message: One sentence, with the formats or figures it is about.
        node: Name of the node concerned, or "".
        value: Name of the value concerned, or "".
    """

    code: Code
    message: str
    node: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.code.value} {self.message}"
