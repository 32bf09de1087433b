"""What passes: tolerances for all outputs, and budgets for some."""

import dataclasses
import difflib
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32, Format, Kind
from onnxcast.verification.metrics import Limit, Metric
from onnxcast.verification.values import Array, Value

__all__ = ["EXACT", "LABELS", "REST", "Budget", "Tolerance", "default_tolerance", "make_budget"]

LABELS = "labels"
"""The array beside the inputs of a sample that holds labels, where the output is plain."""

REST = "*"
"""In place of an output's name: all outputs without a budget of their own."""


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

    def relative(self, name: str) -> float:
        """About the relative error of an output that uses up what passes."""
        limit = self.of(name)
        return min(limit.max, limit.rms) if isinstance(limit, Tolerance) else limit.relative()


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


def make_budget(
    limits: Mapping[str, float],
    metric: Metric,
    outputs: Sequence[ir.Value],
    labels: Sequence[Mapping[str, Value]],
    rest: Tolerance,
) -> Budget:
    """The budget for some or all outputs of a model.

    Args:
        limits: The highest figure that passes by output, or for all others by `REST`.
        metric: The figure.
        outputs: Those of the model.
        labels: For each sample what it holds beside inputs: for ``top1`` the labels, by output or
            by `LABELS` for the only output of floats.
        rest: What outputs without a budget are held to.

    Raises:
        InputError: A number that is none, an output that is not there, or has no labels.
    """
    names = [value.name or "" for value in outputs]
    for name, limit in limits.items():
        if name != REST and name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(
                f"max error for {name!r}: no such output; the outputs are {', '.join(names)}{hint}"
            )
        if not _is_number(limit):
            raise InputError(
                f"max error {limit!r}: a number from 0 up is wanted, in {metric.value}; give for "
                "example 0.01"
            )
    floats = [value.name or "" for value in outputs if _may_be_float(value)]
    exact = [name for name in limits if name != REST and name not in floats]
    if exact:
        raise InputError(
            f"max error for {exact[0]!r}: it has no floats and must be equal; name another output"
        )
    given = {name: limits.get(name, limits.get(REST)) for name in floats}
    wanted = {name: float(limit) for name, limit in given.items() if limit is not None}
    if metric is not Metric.TOP1:
        return Budget(rest, {name: Limit(metric, limit) for name, limit in wanted.items()})
    return Budget(rest, _with_labels(wanted, limits, floats, labels))


def _with_labels(
    wanted: Mapping[str, float],
    limits: Mapping[str, float],
    floats: Sequence[str],
    labels: Sequence[Mapping[str, Value]],
) -> dict[str, Limit]:
    """Limits by ``top1`` for the outputs that have labels, as all that are named must."""
    found = {}
    for name, limit in wanted.items():
        given = [
            _labels_of(name, sample, wanted if name in limits else floats) for sample in labels
        ]
        missing = [number for number, each in enumerate(given) if each is None]
        if missing and (name in limits or len(missing) < len(given)):
            raise InputError(
                f"metric top1: sample {missing[0]} has no labels for output {name!r}; give an "
                f"array {name!r} or {LABELS!r} beside the inputs in the .npz"
            )
        if not missing and given:
            found[name] = Limit(Metric.TOP1, limit, [each for each in given if each is not None])
    if not found:
        raise InputError(
            f"metric top1: the samples have no labels; give an array {LABELS!r}, or one with the "
            "name of an output, beside the inputs in the .npz"
        )
    return found


def _labels_of(name: str, sample: Mapping[str, Value], meant: Collection[str]) -> Array | None:
    value = sample.get(name, sample.get(LABELS) if len(meant) == 1 else None)
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"labels of output {name!r}: they are {array.dtype}; whole numbers are wanted, the "
            "index of the right element on the output's last axis"
        )
    return array


def _is_number(given: object) -> bool:
    if isinstance(given, bool) or not isinstance(given, int | float | np.floating):
        return False
    try:
        return 0 <= float(given) < math.inf
    except OverflowError:
        return False


def _may_be_float(value: ir.Value) -> bool:
    dtype = None if value.type is None else value.type.dtype
    return dtype is None or dtype.is_floating_point()
