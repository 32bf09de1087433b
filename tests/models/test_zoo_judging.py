import dataclasses
from typing import Any

import pytest

from onnxcast_models.judging import judge, moves
from onnxcast_models.rows import Row

ROW = Row(
    name="a",
    token="all",
    digest="d",
    outcome="written",
    casts=4,
    cast_bytes=1000,
    narrow_bytes=500,
    pins=1,
    worst_error=1e-3,
    held_out=2e-3,
    labels=(9, 9, 10),
)
REFUSED = Row(name="a", token="all", digest="d", outcome="refused", cause="no way")


def changed(row: Row = ROW, **values: Any) -> Row:
    return dataclasses.replace(row, **values)


@pytest.mark.parametrize(
    ("after", "verdict", "why"),
    [
        (ROW, "same", ""),
        (changed(seconds=9.0, megabytes=1e4), "same", ""),
        (changed(worst_error=1.4e-3, held_out=1.5e-3), "same", ""),
        (changed(worst_error=2e-3), "worse", "worst error 1.00e-03 -> 2.00e-03"),
        (changed(held_out=float("inf")), "worse", "error on other samples 2.00e-03 -> inf"),
        (changed(worst_error=1e-4), "better", "worst error 1.00e-03 -> 1.00e-04"),
        (changed(casts=5), "worse", "casts 4 -> 5"),
        (changed(casts=5, cast_bytes=500), "worse", "casts 4 -> 5"),
        (changed(cast_bytes=1001), "worse", "cast bytes 1000 -> 1001"),
        (changed(narrow_bytes=499), "worse", "narrow bytes 500 -> 499"),
        (changed(narrow_bytes=501), "better", "narrow bytes 500 -> 501"),
        (changed(pins=0), "better", "pins 1 -> 0"),
        (changed(labels=(9, 8, 10)), "worse", "labels right 9 -> 8"),
        (changed(digest="e"), "worse", "the model or its samples are not those"),
        (REFUSED, "worse", "outcome written -> refused: no way"),
    ],
)
def test_a_row_is_judged_by_what_is_expected(after: Row, verdict: str, why: str) -> None:
    found, told = judge(ROW, after)
    assert found == verdict
    assert told.startswith(why)
    assert bool(told) == bool(why)


def test_an_expected_refusal_is_as_expected_for_its_reason_alone() -> None:
    assert judge(REFUSED, REFUSED) == ("same", "")
    verdict, why = judge(REFUSED, changed(REFUSED, cause="another"))
    assert verdict == "worse"
    assert "reason no way -> another" in why
    assert judge(REFUSED, ROW)[0] == "better"


@pytest.mark.parametrize("outcome", ["refused", "differs", "invalid", "missing", "failed"])
def test_what_nothing_is_expected_of_must_be_written(outcome: Any) -> None:
    assert judge(None, ROW)[0] == "new"
    assert judge(None, changed(REFUSED, outcome=outcome)) == ("worse", f"{outcome}: no way")


def test_the_worst_move_comes_first() -> None:
    after = changed(casts=5, worst_error=1e-1, narrow_bytes=2000)
    assert [move.what for move in moves(ROW, after)] == ["worst error", "casts", "narrow bytes"]


def test_errors_that_are_not_finite_stay_so_without_a_move() -> None:
    bad = changed(worst_error=float("inf"))
    assert moves(bad, bad) == []
    assert [move.weight > 0 for move in moves(ROW, bad)] == [True]
    assert [move.weight > 0 for move in moves(bad, ROW)] == [False]
