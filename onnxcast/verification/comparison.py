"""How far outputs are from the reference's, and whether that is near enough.

The error of a float output is max|a - b| / max|ref| and rms(a - b) / rms(ref) over its finite
elements, and both must be within a tolerance. The figures are relative to the whole tensor: an
element near zero may be off by many times its own size and matter to nobody. Three things would
spoil such figures and are treated apart: non-finite elements must stand exactly where the
reference has them, mask values (a few of -1e9 among ordinary numbers) have an error of their own,
and a reference that is zero everywhere has no scale, so there the error is absolute. A tolerance
of 0 asks for the same bits, signs of zeros included. An output with a budget is measured by the
budget's metric instead (`onnxcast.verification.metrics`).
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxcast.verification.budgets import EXACT, Budget, Tolerance, default_tolerance
from onnxcast.verification.metrics import Limit, Metric, share
from onnxcast.verification.values import Array, Value

__all__ = [
    "Budget",
    "OutputError",
    "Tolerance",
    "bit_equal",
    "compare",
    "default_tolerance",
    "over_samples",
    "says_something",
    "worst",
]

_MASK_BELOW = -1e4
_ORDINARY_ABOVE = -100.0
_NO_SCALE_BELOW = 1e-30
_ABSOLUTE = 1e-6

_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class OutputError:
    """How far one output is from the reference's.

    Attributes:
        name: The output; an element of a sequence is `name[index]`.
        max_error: See `Tolerance.max`. Absolute where the reference is zero; inf where the two
            cannot be compared or a value that must be equal is not.
        rms_error: See `Tolerance.rms`; absolute or inf alike.
        ok: Whether it passes.
        why: One line on what is wrong; "" if it passes.
        used: The share of what passes that it uses up; inf where nothing was measured.
        budget: What it is held to, if that is no tolerance, for people; else "".
        figure: What was measured by the metric of `budget`; for what must be equal, the share of
            elements that differ; inf where nothing was measured.
    """

    name: str
    max_error: float
    rms_error: float
    ok: bool
    why: str
    used: float = dataclasses.field(default=0.0, compare=False)
    budget: str = dataclasses.field(default="", compare=False)
    figure: float = dataclasses.field(default=0.0, compare=False)


def compare(
    reference: Mapping[str, Value],
    candidate: Mapping[str, Value],
    tolerance: Tolerance | Budget,
    sample: int = 0,
) -> list[OutputError]:
    """Compares outputs by name.

    Args:
        reference: What the outputs should be.
        candidate: What they are. A float output may have another float type than the reference's.
        tolerance: What passes for float outputs; all others must be equal.
        sample: The number of the sample, which has labels of its own.

    Returns:
        One entry for each output, in the reference's order, and for each element of a sequence.
        An output that only one side has does not pass.
    """
    budget = tolerance if isinstance(tolerance, Budget) else Budget(tolerance)
    wanted, found = _flat(reference), _flat(candidate)
    errors = [
        _compare_items(name, value, found[name], budget.of(name), sample)
        if name in found
        else _unlike(name, "is missing")
        for name, value in wanted.items()
    ]
    extra = [name for name in found if name not in wanted]
    return errors + [_unlike(name, "is not in the reference") for name in extra]


def worst(errors: Iterable[OutputError]) -> OutputError:
    """The entry to show first: one that does not pass if there is one, then the largest error.

    Raises:
        ValueError: There are no entries.
    """
    return max(errors, key=lambda error: (not error.ok, max(error.max_error, error.rms_error)))


def over_samples(errors: Sequence[OutputError], tolerance: Tolerance | Budget) -> OutputError:
    """The error of one output over all samples, from those of each: the worst, or the sum."""
    limit = tolerance.of(errors[0].name) if isinstance(tolerance, Budget) else tolerance
    if isinstance(limit, Tolerance) or limit.metric is not Metric.TOP1:
        return worst(errors)
    if any(error.figure == math.inf for error in errors):
        return worst(errors)
    return _top1(errors[0].name, sum(error.figure for error in errors), limit)


def says_something(values: Mapping[str, Value]) -> bool:
    """Whether any output has an element other than NaN, so that comparing it shows something."""
    return any(
        array is not None
        and array.size > 0
        and not (_is_float(array) and bool(np.isnan(_real(array)).all()))
        for array in _flat(values).values()
    )


def bit_equal(a: Value, b: Value) -> bool:
    """Whether two values have the same type, shape and bits; every NaN equals every other NaN."""
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _same_bits(a, b)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return len(a) == len(b) and all(map(bit_equal, a, b))


def _same_bits(a: Array, b: Array) -> bool:
    if a.shape != b.shape or _type_name(a) != _type_name(b):
        return False
    if not _is_float(a):
        return bool(np.array_equal(a, b))
    a, b = _real(a), _real(b)
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return False
    return bool(a[~nan].tobytes() == b[~nan].tobytes())


def _flat(values: Mapping[str, Value]) -> dict[str, Array | None]:
    """Spreads sequences into their elements; an empty one leaves a mark."""
    flat: dict[str, Array | None] = {}
    for name, value in values.items():
        if value is None or isinstance(value, np.ndarray):
            flat[name] = value
        elif value:
            flat.update((f"{name}[{index}]", item) for index, item in enumerate(value))
        else:
            flat[f"{name}[]"] = None
    return flat


def _compare_items(
    name: str,
    reference: Array | None,
    candidate: Array | None,
    held_to: Tolerance | Limit,
    sample: int,
) -> OutputError:
    why = _obstacle(reference, candidate)
    if why:
        return _unlike(name, why)
    if reference is not None and candidate is not None:
        if isinstance(held_to, Limit) and held_to.metric is Metric.TOP1:
            return _top1(name, held_to.lost(reference, candidate, sample), held_to)
        if _is_float(reference):
            error = _compare_floats(name, reference, candidate, held_to)
            if error.ok and _is_exact(held_to) and not _same_signs(reference, candidate):
                return _unlike(name, "differs in the sign of a zero")
            return error
        differ = np.count_nonzero(reference != candidate)
        if differ:
            why = f"differs in {differ} of {reference.size} elements"
            return _unlike(name, why, differ / reference.size)
    return OutputError(name, 0.0, 0.0, ok=True, why="")


def _top1(name: str, lost: float, limit: Limit) -> OutputError:
    why, used = limit.why(lost), limit.used(lost)
    figure = max(lost, 0.0)
    return OutputError(name, figure, figure, not why, why, used, str(limit), lost)


def _is_exact(held_to: Tolerance | Limit) -> bool:
    """Whether nothing but the same bits passes."""
    if isinstance(held_to, Tolerance):
        return held_to == EXACT
    return held_to.value == 0 and held_to.metric in (Metric.RELMAX, Metric.RMS)


def _same_signs(a: Array, b: Array) -> bool:
    """Whether signs agree in two arrays that are NaN in the same places."""
    a, b = _real(a), _real(b)
    return bool(np.all(np.isnan(a) | (np.signbit(a) == np.signbit(b))))


def _obstacle(reference: Array | None, candidate: Array | None) -> str:
    """Says why two values cannot be compared by element; "" if they can."""
    if reference is None or candidate is None:
        if reference is candidate:
            return ""
        return "is absent" if candidate is None else "is absent in the reference"
    if reference.shape != candidate.shape:
        return f"has shape {list(candidate.shape)}, the reference has {list(reference.shape)}"
    both_float = _is_float(reference) and _is_float(candidate)
    if both_float or _type_name(reference) == _type_name(candidate):
        return ""
    return f"is {_type_name(candidate)}, the reference is {_type_name(reference)}"


def _compare_floats(
    name: str, reference: Array, candidate: Array, held_to: Tolerance | Limit
) -> OutputError:
    ref = _real(reference).astype(np.float64)
    got = _real(candidate).astype(np.float64)
    finite = np.isfinite(ref)
    agree = (finite & np.isfinite(got)) | (np.isnan(ref) & np.isnan(got)) | (ref == got)
    if not agree.all():
        at = tuple(np.argwhere(~agree)[0])
        where = f"element {list(map(int, at))} is {got[at]:g}, the reference has {ref[at]:g}"
        return _unlike(name, f"{where} ({np.count_nonzero(~agree)} such)")
    ref, got = ref[finite], got[finite]
    masked = ref < _MASK_BELOW
    ordinary = ref > _ORDINARY_ABOVE
    if not (masked.any() and ordinary.any()):
        return _measure(name, ref, got, held_to)
    moved = (masked & (got > _ORDINARY_ABOVE)) | (ordinary & (got < _MASK_BELOW))
    if moved.any():
        return _unlike(name, f"has mask values in other places ({np.count_nonzero(moved)} differ)")
    parts = [_measure(name, ref[part], got[part], held_to) for part in (~masked, masked)]
    first = max(parts, key=lambda part: (not part.ok, part.used))
    return dataclasses.replace(
        first,
        max_error=max(part.max_error for part in parts),
        rms_error=max(part.rms_error for part in parts),
    )


@np.errstate(over="ignore")
def _measure(name: str, ref: _Floats, got: _Floats, held_to: Tolerance | Limit) -> OutputError:
    """Measures finite values against their own scale, or absolutely where they have none."""
    scale = float(np.max(np.abs(ref), initial=0.0))
    if scale < _NO_SCALE_BELOW:
        difference = np.abs(got - ref)
        highest = float(np.max(difference, initial=0.0))
        ok = highest <= _ABSOLUTE
        why = "" if ok else f"is up to {highest:.3g} where the reference is 0"
        used = highest / _ABSOLUTE if not ok or isinstance(held_to, Limit) else 0.0
        return OutputError(name, highest, _rms(difference), ok, why, used)
    # Scaled first, so that no square over- or underflows.
    ref, got = ref / scale, got / scale
    difference = np.abs(got - ref)
    highest, mean = float(np.max(difference)), _rms(difference) / _rms(ref)
    if isinstance(held_to, Limit):
        figure = held_to.figure(ref, got, highest, mean)
        why, used = held_to.why(figure), held_to.used(figure)
        return OutputError(name, highest, mean, not why, why, used, str(held_to), figure)
    over = [
        f"{measure} error {value:.3g} is above {limit:.3g}"
        for measure, value, limit in (
            ("max", highest, held_to.max),
            ("rms", mean, held_to.rms),
        )
        if not value <= limit
    ]
    used = max(share(highest, held_to.max), share(mean, held_to.rms))
    return OutputError(name, highest, mean, ok=not over, why=", ".join(over), used=used)


def _rms(values: _Floats) -> float:
    return math.sqrt(float(np.mean(np.square(values)))) if values.size else 0.0


def _unlike(name: str, why: str, figure: float = math.inf) -> OutputError:
    return OutputError(name, math.inf, math.inf, False, why, used=math.inf, figure=figure)


def _type_name(array: Array) -> str:
    return "string" if array.dtype.kind in "OU" else array.dtype.name


def _is_float(array: Array) -> bool:
    # Most types of ml_dtypes are of kind V to numpy.
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _real(array: Array) -> npt.NDArray[Any]:
    """The array itself, or the two parts of a complex one, one after the other."""
    return np.stack([array.real, array.imag]) if array.dtype.kind == "c" else array
