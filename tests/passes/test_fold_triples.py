"""Every ordered triple of element types is decided by the rule of folding, and the rule by runs.

What folds gives the same bits in one step as in two, for every value of the small types and many of
the wide ones. What does not fold has a value that comes out otherwise, or a reason of `Why`.
"""

import enum
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from onnxcast.formats import (
    BOOL,
    FLOAT8E4M3FN,
    FLOAT8E5M2,
    FLOAT8E8M0,
    STRING,
    Format,
    Kind,
    contains,
    folds,
)
from tests.passes.cast_runs import CASTABLE, IN_ORT, STEPS, Step, by_ort, by_reference, values

Array = npt.NDArray[Any]

_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED)

# What onnxruntime 1.32 gives for a value in one Cast, and ONNX says of it. By way of another type,
# or in onnx's reference, it comes out as ONNX says.
FAULTS: dict[tuple[Format, Format], tuple[float, bool, bool]] = {
    (FLOAT8E5M2, BOOL): (-0.0, True, False),
    (FLOAT8E4M3FN, BOOL): (-0.0, True, False),
    (FLOAT8E8M0, BOOL): (2.0**-127, False, True),
}


class Why(enum.Enum):
    """Why two Casts stay although no value is known that one Cast would change."""

    IDENTITY = "one of the two is an identity, which goes by itself"
    COPIED = "a saturating Cast of float8e5m2 to itself limits infinities, but runtimes copy"
    INEXACT = "the first Cast changes a value, whatever the second makes of it"
    UNDEFINED = "ONNX does not say what some value of the source becomes"
    PRINTED = "how a number is printed depends on its type, and is a runtime's choice"
    PARSED = "what a string becomes that is no such number is undefined"


def why(source: Format, first: Step, last: Step, *, exact: bool) -> Iterator[Why]:
    """The reasons that hold; whether the first Cast is exact was seen in a run."""
    middle, target = first.to, last.to
    if not exact:
        yield Why.INEXACT
    for one, cast in ((source, first), (middle, last)):
        if one == cast.to:
            yield Why.COPIED if one == FLOAT8E5M2 and cast.saturates else Why.IDENTITY
    if STRING in (source, middle) and source != middle:
        yield Why.PARSED
    if target == STRING and not {source.kind, middle.kind} <= set(_INTEGERS):
        yield Why.PRINTED
    from_float = source.kind is Kind.FLOAT or middle.kind is Kind.FLOAT
    if target.kind in _INTEGERS and from_float and not contains(target, source):
        yield Why.UNDEFINED
    if target == FLOAT8E8M0 and (source.min < 0 or source.has_negative_zero):
        yield Why.UNDEFINED


@np.errstate(invalid="ignore")
def different(a: Array, b: Array) -> Array:
    """Indices of values that are not the same; signs of zero count, payloads of NaN do not."""
    if a.dtype.kind in "OU" or b.dtype.kind in "OU":
        return np.flatnonzero(a != b)
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        return np.flatnonzero(a != b)
    if 8 in (each.dtype.itemsize for each in (a, b) if each.dtype.kind in "iu"):
        return np.flatnonzero(a.astype(object) != b.astype(object))  # float64 does not hold them
    a, b = a.astype(np.float64), b.astype(np.float64)
    alike = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    return np.flatnonzero(~alike)


def by_runtime(source: Format, first: list[Step], last: list[Step]) -> list[Array]:
    """Results of onnxruntime; where it lacks a type, of onnx's reference."""
    if all(each in IN_ORT for each in (source, *(step.to for step in (*first, *last)))):
        return by_ort(source, first, last)
    middle = by_reference(values(source), first)
    return [by_reference(middle, [step]) for step in last]


@functools.cache
def in_one_step(source: Format, step: Step) -> Array:
    [result] = by_runtime(source, [], [step])
    return result


@pytest.mark.parametrize("source", CASTABLE, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered")
def test_every_triple_is_decided_as_runs_decide_it(source: Format) -> None:
    undecided, wrong, folded = [], [], 0
    for first in STEPS:
        exact = is_exact(source, first)
        results = runs(source, first)
        for last in STEPS:
            fold = folds(source, first.to, last.to, saturates=last.saturates)
            folded += fold
            name = f"{source} to {first} to {last}"
            result = results.get(last)
            if result is None:
                if fold or not any(why(source, first, last, exact=exact)):
                    undecided.append(name)
                continue
            direct = values(source) if last.to == source else in_one_step(source, last)
            changed = different(result, direct)
            if (source, last.to) in FAULTS:
                changed = changed[values(source)[changed] != FAULTS[source, last.to][0]]
            if fold and changed.size:
                wrong.append(f"{name}: {values(source)[changed[0]]}")
            if not (fold or changed.size or any(why(source, first, last, exact=exact))):
                undecided.append(name)
    assert not wrong
    assert not undecided
    assert folded or source == STRING


def runs(source: Format, first: Step) -> dict[Step, Array]:
    """Results of two steps by the second, but for strings that are printed or parsed between."""
    if STRING in (source, first.to) and source != first.to:
        return {}
    found: dict[Step, Array] = {}
    for known in (True, False):
        lasts = [step for step in STEPS if (step.to in IN_ORT) == known]
        found.update(zip(lasts, by_runtime(source, [first], lasts), strict=True))
    return found


def is_exact(source: Format, first: Step) -> bool:
    """Whether the first Cast keeps every value, as the runtime does it."""
    if STRING in (source, first.to):
        return source == first.to
    return different(in_one_step(source, first), values(source)).size == 0


@pytest.mark.parametrize(("source", "target"), FAULTS, ids=str)
def test_known_faults_are_onnxruntimes(source: Format, target: Format) -> None:
    value, given, said = FAULTS[source, target]
    where = np.flatnonzero(values(source).astype(np.float64) == value)
    where = where[np.signbit(values(source)[where].astype(np.float64)) == np.signbit(value)]
    assert in_one_step(source, Step(target))[where].tolist() == [given]
    assert by_reference(values(source)[where], [Step(target)]).tolist() == [said]
