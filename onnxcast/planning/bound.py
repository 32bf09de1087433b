"""The least that Casts cost under a plan, wherever they stand."""

import dataclasses
from typing import Any

__all__ = ["Bound"]


@dataclasses.dataclass(frozen=True)
class Bound:
    """What the Casts between float32 and the narrow format cost at least.

    Attributes:
        least: The value of the minimum cut by which data movement was placed.
        unit: ``bytes`` that they write, by as many conversions as the target takes, with a
            dimension that is not known counting 1; ``casts`` where so asked for, or where not even
            the rank of some value is known.
        why_not: Why it is not proven that nothing costs less, or "".
    """

    least: int
    unit: str
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"least": self.least, "unit": self.unit, "not_proven_minimal": self.why_not}
