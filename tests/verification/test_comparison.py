import math

import ml_dtypes
import numpy as np
import pytest

from onnxcast import formats
from onnxcast.verification.comparison import (
    Budget,
    OutputError,
    Tolerance,
    bit_equal,
    compare,
    default_tolerance,
    over_samples,
    says_something,
    worst,
)
from onnxcast.verification.metrics import Limit, Metric
from onnxcast.verification.values import Array, Value

TOLERANCE = Tolerance(max=1e-2, rms=5e-3)
NAN, INF = math.nan, math.inf


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def only(reference: Value, candidate: Value, tolerance: Tolerance = TOLERANCE) -> OutputError:
    [error] = compare({"y": reference}, {"y": candidate}, tolerance)
    return error


@pytest.mark.parametrize(
    ("format_", "limit"),
    [
        (formats.FLOAT16, 1e-2),
        (formats.BFLOAT16, 6e-2),
        (formats.float32r(), 2e-3),
        (formats.FLOAT8E4M3FN, 2.5e-1),
        (formats.FLOAT8E5M2, 2.5e-1),
        (formats.FLOAT4E2M1, 2.5e-1),
        (formats.FLOAT32, 0.0),
        (formats.FLOAT64, 0.0),
        (formats.INT8, 0.0),
    ],
)
def test_each_format_has_its_tolerance(format_: formats.Format, limit: float) -> None:
    assert default_tolerance(format_) == Tolerance(max=limit, rms=limit)


def test_errors_are_relative_to_the_whole_reference() -> None:
    error = only(floats(-4.0, 3.0, 0.0, 0.0), floats(-4.0, 3.0, 0.5, 0.0), Tolerance(1.0, 1.0))
    assert error == OutputError("y", 0.5 / 4.0, 0.25 / 2.5, ok=True, why="")


def test_a_max_error_above_its_limit_fails() -> None:
    error = only(floats(1, 1), floats(1, 1.25), Tolerance(max=0.2, rms=1.0))
    assert not error.ok
    assert error.why == "max error 0.25 is above 0.2"


def test_an_rms_error_above_its_limit_fails() -> None:
    error = only(floats(1, 1), floats(1.25, 1.25), Tolerance(max=1.0, rms=0.2))
    assert not error.ok
    assert error.why == "rms error 0.25 is above 0.2"


def test_an_error_at_its_limit_passes() -> None:
    assert only(floats(1, 1), floats(1.25, 1.25), Tolerance(0.25, 0.25)).ok


def test_zero_tolerance_passes_equal_values_only() -> None:
    exact = Tolerance(0.0, 0.0)
    assert only(floats(1, 2), floats(1, 2), exact).ok
    assert not only(floats(1, 2), floats(1, np.nextafter(np.float32(2), np.float32(3))), exact).ok


def test_figures_are_in_float64() -> None:
    # In float16 the differences would overflow, in float32 their squares would.
    big = np.array([3e38, 2e38], np.float32)
    assert only(big, -big, Tolerance(2.0, 2.0)).ok
    half = np.array([6e4, 5e4], np.float16)
    assert only(half, -half, Tolerance(2.0, 2.0)).max_error == 2.0


def test_a_huge_candidate_fails_without_a_warning() -> None:
    assert only(np.array([1e-29]), np.array([1e308])).max_error == INF
    assert only(np.array([0.0]), np.array([1e308])).rms_error == INF


@pytest.mark.parametrize(("candidate", "ok"), [(1e-6, True), (1.1e-6, False), (-1.1e-6, False)])
@pytest.mark.parametrize("reference", [0.0, -9e-31])
def test_a_reference_without_scale_is_compared_absolutely(
    reference: float, candidate: float, ok: bool
) -> None:
    error = only(np.array([reference, 0.0]), np.array([candidate, 0.0]), Tolerance(1.0, 1.0))
    assert error.ok is ok
    assert error.max_error == pytest.approx(abs(candidate), rel=1e-12)


def test_a_reference_of_1e_30_has_a_scale() -> None:
    assert not only(np.array([1.1e-30]), np.array([2.2e-30])).ok


@pytest.mark.parametrize("values", [(1.0, NAN), (1.0, INF), (1.0, -INF), (NAN, NAN)])
def test_non_finite_values_in_the_same_place_pass(values: tuple[float, ...]) -> None:
    error = only(floats(*values), floats(*values))
    assert error == OutputError("y", 0.0, 0.0, ok=True, why="")


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [(1.0, NAN), (1.0, INF), (NAN, 1.0), (INF, 1.0), (INF, -INF), (INF, NAN), (NAN, INF)],
)
def test_non_finite_values_elsewhere_fail(reference: float, candidate: float) -> None:
    error = only(floats(1.0, reference), floats(1.0, candidate))
    assert not error.ok
    assert error.max_error == INF
    assert error.why == f"element [1] is {candidate:g}, the reference has {reference:g} (1 such)"


def test_finite_values_beside_non_finite_ones_are_measured() -> None:
    assert only(floats(NAN, 2.0), floats(NAN, 2.5)).max_error == 0.25


def test_mask_values_do_not_hide_the_error_of_the_rest() -> None:
    error = only(floats(-1e9, 1.0, 1.0), floats(-1e9, 1.0, 1.5))
    assert not error.ok
    assert error.max_error == 0.5


def test_mask_values_have_an_error_of_their_own() -> None:
    near, far = floats(-1.001e9, 1.0), floats(-1.1e9, 1.0)
    assert only(floats(-1e9, 1.0), near).ok
    error = only(floats(-1e9, 1.0), far)
    assert not error.ok
    assert error.max_error == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("candidate", [(-1e9, 0.0, 5.0), (-1e9, -2e4, -2e4)])
def test_mask_values_stand_where_the_reference_has_them(candidate: tuple[float, ...]) -> None:
    error = only(floats(-1e9, -2e4, 5.0), floats(*candidate), Tolerance(INF, INF))
    assert not error.ok
    assert error.why == "has mask values in other places (1 differ)"


def test_zeros_beside_mask_values_have_no_scale() -> None:
    assert only(floats(-1e9, 0.0), floats(-1e9, 1e-7)).ok
    error = only(floats(-1e9, 0.0), floats(-1e9, 1e-3))
    assert error.why == "is up to 0.001 where the reference is 0"


def test_large_values_without_ordinary_ones_are_no_masks() -> None:
    # As masks, -2e4 would be measured against itself: 500 / 2e4 is above the limit.
    assert only(floats(-1e6, -2e4), floats(-1e6, -2.05e4)).ok


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.str_])
def test_other_types_must_be_equal(dtype: type[np.generic]) -> None:
    reference: Array = np.array([0, 1, 1, 0]).astype(dtype)
    assert only(reference, reference.copy()).ok
    error = only(reference, np.array([0, 1, 0, 1]).astype(dtype), Tolerance(INF, INF))
    assert not error.ok
    assert error.why == "differs in 2 of 4 elements"


def test_strings_of_another_width_can_be_equal() -> None:
    assert only(np.array(["a"], dtype="<U1"), np.array(["a"], dtype="<U9")).ok
    assert only(np.array(["a"], dtype=object), np.array(["a"])).ok


def test_complex_values_are_measured_by_their_parts() -> None:
    error = only(np.array([1 + 4j]), np.array([1 + 5j]), Tolerance(1.0, 1.0))
    assert error.max_error == 0.25


def test_narrow_floats_compare_with_wide_ones() -> None:
    narrow = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert only(floats(1.0, 2.0), narrow).ok
    assert only(narrow, floats(1.0, 2.0)).ok
    assert only(floats(1.0, 2.0), np.array([1.0, 2.0], np.float16)).ok


@pytest.mark.parametrize(
    ("reference", "candidate", "why"),
    [
        (floats(1), np.array([1]), "is int64, the reference is float32"),
        (np.array([1], np.int32), np.array([1]), "is int64, the reference is int32"),
        (np.array([0]), np.array([False]), "is bool, the reference is int64"),
        (floats(1), floats(1, 1), "has shape [2], the reference has [1]"),
        (floats(1), np.ones((1, 1), np.float32), "has shape [1, 1], the reference has [1]"),
        (floats(1), None, "is absent"),
        (None, floats(1), "is absent in the reference"),
    ],
)
def test_values_of_another_form_fail(reference: Value, candidate: Value, why: str) -> None:
    error = only(reference, candidate, Tolerance(INF, INF))
    assert not error.ok
    assert error.why == why


@pytest.mark.parametrize("value", [np.zeros((0, 3), np.float32), np.zeros(0, np.int64), None, []])
def test_nothing_matches_nothing(value: Value) -> None:
    assert only(value, value).ok


def test_scalars_are_compared() -> None:
    assert only(np.array(2.0), np.array(2.5)).max_error == 0.25
    assert not only(np.array(2.0), np.array(NAN)).ok


def test_sequences_are_compared_by_element() -> None:
    errors = compare({"s": [floats(1), floats(1)]}, {"s": [floats(1), floats(2)]}, TOLERANCE)
    assert [(error.name, error.ok) for error in errors] == [("s[0]", True), ("s[1]", False)]


@pytest.mark.parametrize("other", [[floats(1)], [floats(1)] * 3, [], None, floats(1, 1)])
def test_a_sequence_of_another_length_fails(other: Value) -> None:
    reference: Value = [floats(1), floats(1)]
    assert not worst(compare({"s": reference}, {"s": other}, TOLERANCE)).ok
    assert not worst(compare({"s": other}, {"s": reference}, TOLERANCE)).ok


def test_outputs_are_matched_by_name_in_the_order_of_the_reference() -> None:
    reference = {"a": floats(1), "b": floats(2), "c": floats(3)}
    candidate = {"c": floats(3), "a": floats(1), "d": floats(4)}
    errors = compare(reference, candidate, TOLERANCE)
    assert [(error.name, error.why) for error in errors] == [
        ("a", ""),
        ("b", "is missing"),
        ("c", ""),
        ("d", "is not in the reference"),
    ]


def test_the_worst_is_a_failure_then_the_largest_error() -> None:
    small = OutputError("small", 0.1, 0.0, ok=True, why="")
    large = OutputError("large", 0.0, 0.2, ok=True, why="")
    failed = OutputError("failed", 1e-3, 1e-3, ok=False, why="is up to 0.001 where ...")
    assert worst([small, large]) is large
    assert worst([small, failed, large]) is failed


def test_bits_are_equal_whatever_the_nan() -> None:
    payload = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)
    assert bit_equal(payload, floats(NAN, 1.0))
    assert bit_equal(np.array([NAN], ml_dtypes.bfloat16), np.array([-NAN], ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (floats(0.0), floats(-0.0)),
        (floats(NAN), floats(INF)),
        (floats(1.0), np.array([1.0])),
        (floats(1.0), floats(1.0, 1.0)),
        (np.array([1j * 0.0]), np.array([-1j * 0.0])),
        (np.array([1]), np.array([2])),
        (np.array([1], np.int32), np.array([1], np.int64)),
        (np.array(["a"]), np.array(["b"])),
        (floats(1.0), None),
        (floats(1.0), [floats(1.0)]),
        ([floats(1.0)], [floats(1.0), floats(1.0)]),
        ([floats(1.0)], [floats(2.0)]),
    ],
)
def test_other_bits_are_not_equal(a: Value, b: Value) -> None:
    assert not bit_equal(a, b)
    assert not bit_equal(b, a)
    assert bit_equal(a, a)
    assert bit_equal(b, b)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"y": np.array([np.nan, 1.0], np.float32)}, True),
        ({"y": np.array([np.inf], np.float32)}, True),
        ({"y": np.array([3])}, True),
        ({"y": np.full(2, np.nan, np.float32), "z": np.zeros(1, bool)}, True),
        ({"y": np.full(2, np.nan, np.float32)}, False),
        ({"y": np.zeros((0, 3), np.float32)}, False),
        ({"y": None}, False),
        ({"y": []}, False),
        ({}, False),
    ],
)
def test_outputs_say_something_unless_all_is_nan_or_empty(
    values: dict[str, Value], says: bool
) -> None:
    assert says_something(values) is says


def held_to(metric: str, value: float, reference: Value, candidate: Value) -> OutputError:
    budget = Budget(TOLERANCE, {"y": Limit(Metric(metric), value)})
    [error] = compare({"y": reference}, {"y": candidate}, budget)
    return error


@pytest.mark.parametrize(
    ("metric", "limit", "figure", "used"),
    [
        ("relmax", 0.25, 0.125, 0.5),
        ("rms", 0.2, 0.1, 0.5),
        ("sqnr", 14.0, 20.0, 10**-0.3),
        ("cosine", 0.01, 1 - 24 / math.sqrt(25 * 23.25), None),
    ],
)
def test_an_output_is_held_to_its_own_budget(
    metric: str, limit: float, figure: float, used: float | None
) -> None:
    reference, candidate = floats(-4.0, 3.0, 0.0, 0.0), floats(-4.0, 2.5, 0.0, 0.0)
    error = held_to(metric, limit, reference, candidate)
    assert error.ok
    assert error.figure == pytest.approx(figure, abs=1e-3)
    assert error.used == pytest.approx(error.figure / limit if used is None else used)
    assert error.budget.startswith(f"{metric} {limit:g}")
    strict = held_to(metric, 40.0 if metric == "sqnr" else limit / 1e4, reference, candidate)
    assert not strict.ok
    assert strict.used > 1
    assert f"{metric} error" in strict.why


@pytest.mark.parametrize("metric", ["relmax", "rms", "cosine", "sqnr"])
def test_equal_outputs_use_up_nothing(metric: str) -> None:
    error = held_to(metric, 0.0, floats(1, -2), floats(1, -2))
    assert (error.ok, error.used) == (True, 0.0)


def test_what_is_beyond_measure_uses_up_all() -> None:
    for metric in ("relmax", "rms", "cosine", "sqnr"):
        error = held_to(metric, 1.0, floats(1, 2), floats(1, INF))
        assert (error.ok, error.used) == (False, INF)


def test_labels_lost_and_won_add_up_over_samples() -> None:
    labels = [np.array([0, 1]), np.array([1, 1])]
    limit = Limit(Metric.TOP1, 0.25, labels)
    budget = Budget(TOLERANCE, {"y": limit})
    right, wrong = floats(1, 0), floats(0, 1)
    reference = [np.stack([right, wrong]), np.stack([right, wrong])]
    candidate = [np.stack([wrong, right]), np.stack([wrong, wrong])]
    errors = [
        compare({"y": a}, {"y": b}, budget, number)[0]
        for number, (a, b) in enumerate(zip(reference, candidate, strict=True))
    ]
    assert [error.figure for error in errors] == [0.5, -0.25]
    whole = over_samples(errors, budget)
    assert (whole.figure, whole.ok, whole.used) == (0.25, True, 1.0)
