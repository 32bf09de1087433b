import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxcast.search import fewest


@given(st.integers(1, 500), st.integers(1, 500))
def test_the_smallest_accepted_number_is_found(count: int, needed: int) -> None:
    tried: list[int] = []

    def attempt(size: int) -> bool:
        tried.append(size)
        return size >= needed

    assert fewest(count, attempt) == (needed if needed <= count else None)
    assert len(tried) <= 20
    assert len(set(tried)) == len(tried)


@pytest.mark.parametrize("trials", [1, 2, 3, 5])
def test_the_largest_number_is_tried_before_the_trials_run_out(trials: int) -> None:
    tried: list[int] = []

    def attempt(size: int) -> bool:
        tried.append(size)
        return size == 1000

    assert fewest(1000, attempt, trials=trials) == 1000
    assert len(tried) == trials


def test_without_candidates_nothing_is_found() -> None:
    assert fewest(0, lambda _size: True) is None
