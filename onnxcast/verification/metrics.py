"""Figures that an error budget may be given in, each with the share of the budget that it uses up.

relmax, rms
    The largest and the root mean square difference, relative to those of the reference.
cosine
    1 - cos(a, b).
sqnr
    The ratio of signal to noise in decibels, 10 log10(sum ref^2 / sum (a - ref)^2); the budget is
    the lowest that passes.
top1
    The share of all labels that the reference's largest elements along the last axis name and the
    candidate's do not, less those that only the candidate's name.
"""

import dataclasses
import enum
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxcast.verification.values import Array

__all__ = ["Limit", "Metric", "share"]

_Floats = npt.NDArray[np.float64]


_HIGHEST = 300.0
"""The exponent of ten from which on a ratio of decibels is as bad as any."""


class Metric(enum.Enum):
    """The figure of a budget."""

    RELMAX = "relmax"
    RMS = "rms"
    COSINE = "cosine"
    SQNR = "sqnr"
    TOP1 = "top1"


@dataclasses.dataclass(frozen=True)
class Limit:
    """The budget of one output.

    Attributes:
        metric: What is measured.
        value: The highest figure that passes; the lowest in decibels for ``sqnr``.
        labels: For ``top1``, those of each sample.
    """

    metric: Metric
    value: float
    labels: Sequence[Array] = ()

    def __str__(self) -> str:
        return f"{self.metric.value} {self.value:g}{' dB' if self.metric is Metric.SQNR else ''}"

    def used(self, figure: float) -> float:
        """The share of the budget that a figure uses up; from 1 down it passes."""
        if self.metric is Metric.SQNR:
            return 0.0 if figure == math.inf else 10 ** min((self.value - figure) / 20, _HIGHEST)
        return share(figure, self.value)

    def relative(self) -> float:
        """About the relative error of the output that uses up the budget."""
        if self.metric is Metric.COSINE:
            return math.sqrt(2 * self.value)
        if self.metric is Metric.SQNR:
            return 10 ** max(-self.value / 20, -_HIGHEST)
        return 1.0 if self.metric is Metric.TOP1 else self.value

    def why(self, figure: float) -> str:
        """One line on what is wrong with a figure; "" if it passes."""
        if self.used(figure) <= 1:
            return ""
        where = "below" if self.metric is Metric.SQNR else "above"
        return f"{self.metric.value} error {figure:.3g} is {where} {self.value:.3g}"

    def figure(self, ref: _Floats, got: _Floats, highest: float, mean: float) -> float:
        """The figure of finite values.

        Args:
            ref: What they should be, not all zero, scaled to at most 1.
            got: What they are, scaled by the same.
            highest: The figure by ``relmax``.
            mean: The figure by ``rms``.
        """
        if self.metric is Metric.COSINE:
            return _cosine_error(ref, got)
        if self.metric is Metric.SQNR:
            return -20 * math.log10(mean) if mean else math.inf
        return highest if self.metric is Metric.RELMAX else mean

    def lost(self, ref: Array, got: Array, sample: int) -> float:
        """The figure by ``top1`` that one sample adds to that of all."""
        labels = self.labels[sample]
        right = [np.count_nonzero(np.argmax(each, axis=-1) == labels) for each in (ref, got)]
        return float(right[0] - right[1]) / max(sum(each.size for each in self.labels), 1)


def share(figure: float, limit: float) -> float:
    """How much of `limit` a figure from 0 up uses up; nan uses up more than all of it."""
    if figure <= 0 or (limit == math.inf and figure < math.inf):
        return 0.0
    return figure / limit if limit and not math.isnan(figure) else math.inf


def _cosine_error(ref: _Floats, got: _Floats) -> float:
    size = float(np.max(np.abs(got), initial=0.0))
    if size == 0:
        return 1.0
    one, other = ref.ravel(), got.ravel() / size
    one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
    # 1 - cos without the cancellation that would hide errors below 1e-8.
    return float(np.sum(np.square(one - other))) / 2
