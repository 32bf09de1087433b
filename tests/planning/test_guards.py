"""Guards are followed as far as they alone decide, and pin what would lose or invert them."""

import pytest

from onnxcast.planning import Reason
from tests.planning.plans import reasons

VANISHING, RANGE = Reason.VANISHING, Reason.OUT_OF_RANGE
CONSTANTS = (
    "float tiny = {1e-12}, float low = {1e-6}, float fine = {0.01}, float two = {2.0},"
    " float minus = {-0.5}, float huge = {-90.0}, int64[2] s = {4, 4}"
)


def found(nodes: str, token: str = "all-fp16") -> dict[str, Reason]:
    return reasons(f"g (float[4,4] x) => (float[4,4] y) <{CONSTANTS}> {{ {nodes} }}", token)


@pytest.mark.parametrize("guard", ["Max (n, tiny)", "Clip (n, tiny)", "Add (n, tiny)"])
def test_what_divides_by_a_vanishing_guard_stays_wide(guard: str) -> None:
    assert found(f"n = Abs (x) g = {guard} y = Div (x, g)")["y"] is VANISHING


def test_data_movement_between_is_no_escape() -> None:
    assert found("n = Abs (x) g = Max (n, tiny) e = Expand (g, s) y = Div (x, e)")["y"] is VANISHING


@pytest.mark.parametrize("inverse", ["Reciprocal (r)", "Div (two, r)", "Pow (g, minus)"])
def test_what_multiplies_by_the_inverse_of_a_guard_stays_wide(inverse: str) -> None:
    nodes = f"n = Mul (x, x) g = Add (n, tiny) r = Sqrt (g) i = {inverse} y = Mul (x, i)"
    assert found(nodes)["y"] is RANGE


def test_a_guard_that_the_format_has_may_have_an_inverse_that_it_lacks() -> None:
    nodes = "n = Abs (x) g = Add (n, low) i = Reciprocal (g) y = Mul (x, i)"
    assert found(nodes)["y"] is RANGE
    assert found(nodes, "all")["y"] is Reason.REQUESTED


def test_a_root_may_bring_a_guard_back_into_range() -> None:
    nodes = "n = Mul (x, x) g = Add (n, tiny) r = Sqrt (g) y = Div (x, r)"
    assert found(nodes)["y"] is Reason.REQUESTED


@pytest.mark.parametrize(
    "nodes",
    [
        "n = Abs (x) g = Max (n, fine) y = Div (x, g)",
        "n = Abs (x) g = Max (n, tiny) y = Div (g, x)",
        "n = Abs (x) g = Max (n, tiny) y = Mul (g, x)",
        "n = Abs (x) g = Max (n, tiny) h = Add (g, x) y = Div (x, h)",
        "n = Abs (x) g = Clip (n, fine, tiny) y = Div (x, g)",
    ],
)
def test_whoever_is_at_no_loss_without_the_guard_is_narrow(nodes: str) -> None:
    assert found(nodes)["y"] is Reason.REQUESTED


@pytest.mark.parametrize("power", ["Pow (g, huge)", "Pow (huge, g)", "Div (g, huge)"])
def test_powers_beyond_all_formats_end_the_search(power: str) -> None:
    nodes = f"n = Abs (x) g = Max (n, tiny) p = {power} r = Reciprocal (p) y = Sqrt (r)"
    assert {"n", "g", "p", "r", "y"} <= set(found(nodes))
