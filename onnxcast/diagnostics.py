"""Findings: what a pass did or left alone, with a stable code and the IR names it is about.

A finding is collected, never raised. Passes return them, the report prints them.
"""

import dataclasses
import enum

__all__ = ["Code", "Diagnostic"]


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
