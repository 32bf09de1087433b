"""Which of two rows of the same model and mode is worse, in what, and by how much."""

__all__ = ["Move", "Verdict", "judge", "moves"]

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from .rows import Outcome, Row

Verdict: TypeAlias = Literal["same", "better", "new", "worse"]

_RANKS: dict[Outcome, int] = {
    "written": 0,
    "refused": 1,
    "differs": 2,
    "invalid": 2,
    "missing": 2,
    "failed": 3,
    "crashed": 4,
}
"""How bad an outcome is."""

_LESS_IS_BETTER = ("casts", "cast_bytes", "pins")

_NOISE = 1.5
"""Up to which factor an error is the same: kernels of another processor add in another order."""

_LEAST = 1e-6
"""Errors below this one are the same."""


@dataclasses.dataclass(frozen=True)
class Move:
    """What one figure did.

    Attributes:
        what: The figure, in words.
        before: What it was.
        after: What it is.
        weight: How bad that is: positive if it is worse, by what factor in powers of two.
    """

    what: str
    before: str
    after: str
    weight: float

    def __str__(self) -> str:
        return f"{self.what} {self.before} -> {self.after}"


def judge(expected: Row | None, found: Row) -> tuple[Verdict, str]:
    """Whether a row is as expected, and the reason if it is not.

    A model that nothing is expected of must be written.
    """
    if expected is None:
        if found.outcome == "written":
            return "new", "nothing is expected of it yet"
        return "worse", f"{found.outcome}: {found.cause}"
    if expected.digest != found.digest:
        return "worse", "the model or its samples are not those that the figures are expected of"
    moved = moves(expected, found)
    worse = [str(move) for move in moved if move.weight > 0]
    if worse:
        cause = f": {found.cause}" if found.cause else ""
        return "worse", "; ".join(worse) + cause
    if moved:
        return "better", "; ".join(map(str, moved))
    return "same", ""


def moves(before: Row, after: Row) -> list[Move]:
    """What moved from one row to another, the worst first."""
    if before.outcome != after.outcome:
        weight = 100.0 * (_RANKS[after.outcome] - _RANKS[before.outcome]) or 50.0
        return [Move("outcome", before.outcome, after.outcome, weight)]
    found = [*_reasons(before, after), *_errors(before, after), *_counts(before, after)]
    return sorted(found, key=lambda move: -move.weight)


def _reasons(before: Row, after: Row) -> list[Move]:
    """Another reason for the same refusal."""
    if before.outcome != "refused" or before.cause == after.cause:
        return []
    return [Move("reason", before.cause, after.cause, 50.0)]


def _errors(before: Row, after: Row) -> list[Move]:
    pairs = (
        ("worst error", before.worst_error, after.worst_error),
        ("error on other samples", before.held_out, after.held_out),
    )
    found = []
    for what, was, now in pairs:
        if was is None or now is None or was == now:
            continue
        weight = _factor(max(was, _LEAST), max(now, _LEAST))
        if abs(weight) > math.log2(_NOISE):
            found.append(Move(what, f"{was:.2e}", f"{now:.2e}", weight))
    return found


def _counts(before: Row, after: Row) -> list[Move]:
    found = []
    for name, more_is_worse in _figures():
        was, now = getattr(before, name), getattr(after, name)
        if was is None or now is None or was == now:
            continue
        weight = _factor(was + 1, now + 1)
        found.append(
            Move(name.replace("_", " "), str(was), str(now), weight if more_is_worse else -weight)
        )
    if before.labels and after.labels and before.labels[1] != after.labels[1]:
        was, now = before.labels[1], after.labels[1]
        found.append(Move("labels right", str(was), str(now), _factor(now + 1, was + 1)))
    return found


def _figures() -> Sequence[tuple[str, bool]]:
    return [(name, True) for name in _LESS_IS_BETTER] + [("narrow_bytes", False)]


def _factor(before: float, after: float) -> float:
    """In powers of two; what is not finite is far."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return 90.0 if math.isfinite(before) else -90.0 * math.isfinite(after)
    return math.log2(after / before)
