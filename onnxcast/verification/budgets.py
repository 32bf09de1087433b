"""What passes: tolerances for all outputs, and budgets for some."""

import dataclasses
from collections.abc import Mapping

from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32, Format, Kind
from onnxcast.verification.metrics import Limit

__all__ = ["EXACT", "Budget", "Tolerance", "default_tolerance"]


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The highest error that passes.

    Attributes:
        max: For the largest difference, relative to the largest magnitude of the reference.
        rms: For the root mean square difference, relative to that of the reference.
    """

    max: float
    rms: float


EXACT = Tolerance(max=0.0, rms=0.0)


@dataclasses.dataclass(frozen=True)
class Budget:
    """What passes, output by output.

    Attributes:
        rest: For outputs without a limit of their own.
        limits: Those of some outputs by name; a sequence's is that of each element.
    """

    rest: Tolerance
    limits: Mapping[str, Limit] = dataclasses.field(default_factory=dict)

    def of(self, name: str) -> "Tolerance | Limit":
        """What an output, or an element of one that is a sequence, is held to."""
        return self.limits.get(name) or self.limits.get(name.partition("[")[0]) or self.rest


def default_tolerance(format: Format) -> Tolerance:  # noqa: A002 - the word of this project
    """The tolerance for a model whose narrowest rounding is to this format; 0 if none rounds."""
    if format.kind is not Kind.FLOAT or format.significand >= FLOAT32.significand:
        limit = 0.0
    elif format == FLOAT16:
        limit = 1e-2
    elif format == BFLOAT16:
        limit = 6e-2
    else:
        limit = 2e-3 if format.bits == FLOAT32.bits else 2.5e-1
    return Tolerance(max=limit, rms=limit)
