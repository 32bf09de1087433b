"""Two models run side by side: how far their values are apart, and how large they get.

This runs in the worker, so that only figures cross the border of the process.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from onnxcast.verification.comparison import Tolerance, compare, worst
from onnxcast.verification.values import Feeds, Value

__all__ = ["Difference", "Session", "differences"]


class Session(Protocol):
    """What runs a model: a session of onnxruntime."""

    def run(self, names: Sequence[str], feeds: Feeds, /) -> list[Value]:
        """The named outputs for one sample."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """What one value is in the first of two models, and how far it is off in the second.

    Attributes:
        max_error: As of an `OutputError`; the worst over the samples.
        rms_error: The same.
        why: What is wrong with it, by the tolerance for outputs; "" if it passes.
        breaks: Whether an element is not finite that is so in the first model.
        low: The least finite element in the first model; inf if there is none.
        high: The greatest; -inf if there is none.
        smallest: The smallest magnitude above 0; inf if there is none.
        non_finite: How many elements are infinite or NaN.
    """

    max_error: float
    rms_error: float
    why: str
    breaks: bool
    low: float
    high: float
    smallest: float
    non_finite: int

    def merged(self, other: "Difference") -> "Difference":
        """Both as one."""
        further = max(self, other, key=lambda each: (bool(each.why), each.max_error))
        return Difference(
            max_error=max(self.max_error, other.max_error),
            rms_error=max(self.rms_error, other.rms_error),
            why=further.why,
            breaks=self.breaks or other.breaks,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            smallest=min(self.smallest, other.smallest),
            non_finite=self.non_finite + other.non_finite,
        )


def differences(
    sessions: tuple[Session, Session],
    names: Sequence[str],
    samples: Sequence[tuple[Feeds, Feeds]],
    tolerance: Tolerance,
) -> list[dict[str, Any]]:
    """Run both models on each sample and compare outputs.

    Args:
        sessions: The models.
        names: Outputs of both.
        samples: What to feed each.
        tolerance: What passes.

    Returns:
        For each name the fields of a `Difference`.
    """
    found: dict[str, Difference] = {}
    for feeds in samples:
        outputs = (
            session.run(names, sample) for session, sample in zip(sessions, feeds, strict=True)
        )
        for name, first, second in zip(names, *outputs, strict=True):
            each = _difference(name, first, second, tolerance)
            found[name] = found[name].merged(each) if name in found else each
    return [dataclasses.asdict(found[name]) for name in names]


def _difference(name: str, wanted: Value, got: Value, tolerance: Tolerance) -> Difference:
    error = worst(compare({name: wanted}, {name: got}, tolerance))
    return Difference(
        max_error=error.max_error,
        rms_error=error.rms_error,
        why=error.why,
        breaks=_breaks(wanted, got),
        **_range(wanted),
    )


def _breaks(wanted: Value, got: Value) -> bool:
    if not (isinstance(wanted, np.ndarray) and isinstance(got, np.ndarray)):
        return False
    if wanted.dtype.kind != "f" or got.dtype.kind != "f" or wanted.shape != got.shape:
        return False
    return bool((np.isfinite(wanted) & ~np.isfinite(got)).any())


def _range(value: Value) -> Mapping[str, Any]:
    empty = np.zeros(0)
    number = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    array = np.asarray(value).astype(np.float64) if number else empty
    finite = array[np.isfinite(array)]
    magnitudes = np.abs(finite[finite != 0])
    return {
        "low": float(np.min(finite, initial=math.inf)),
        "high": float(np.max(finite, initial=-math.inf)),
        "smallest": float(np.min(magnitudes, initial=math.inf)),
        "non_finite": int(array.size - finite.size),
    }
