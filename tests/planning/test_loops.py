"""Sums that loops carry stay wide; states that are made anew in each step do not."""

import pytest

from onnxcast.planning import Reason
from tests.planning.plans import reasons


def in_loop(nodes: str, token: str = "all-fp16") -> dict[str, Reason]:
    return reasons(
        f"""g (float[4] x, int64 n, bool go) => (float[4] y) <float k = {{0.5}}> {{
            y = Loop (n, go, x) <body = b (int64 i, bool on, float[4] v)
                => (bool on2, float[4] w) {{
                on2 = Identity (on) {nodes}
            }}>
        }}""",
        token,
    )


def in_scan(nodes: str) -> dict[str, Reason]:
    return reasons(
        f"""g (float[4] x, float[3,4] xs) => (float[4] y, float[3,4] ys) {{
            y, ys = Scan (x, xs) <num_scan_inputs = 1, body = b (float[4] v, float[4] e)
                => (float[4] w, float[4] o) {{ {nodes} }}>
        }}"""
    )


@pytest.mark.parametrize(
    "nodes",
    [
        "w = Add (v, x)",
        "w = Sub (x, v)",
        "d = Mul (v, k) w = Add (d, x)",
        "t = Identity (v) a = Add (t, x) w = Identity (a)",
    ],
)
def test_what_a_loop_adds_to_its_state_stays_wide(nodes: str) -> None:
    found = in_loop(nodes)
    assert Reason.STATISTICS in found.values()
    assert Reason.REQUESTED not in found.values()


@pytest.mark.parametrize("nodes", ["a = Add (v, x) w = Tanh (a)", "m = Mul (x, k) w = Relu (m)"])
def test_a_state_made_anew_is_narrow(nodes: str) -> None:
    assert Reason.STATISTICS not in in_loop(nodes).values()


def test_what_is_added_is_narrow_as_is_what_reads_the_sum() -> None:
    found = in_scan("p = Sigmoid (e) w = Add (v, p) o = Tanh (w)")
    assert found["w"] is Reason.STATISTICS
    assert (found["p"], found["o"]) == (Reason.REQUESTED, Reason.REQUESTED)


def test_matmult_scope_decides_about_products_only() -> None:
    assert in_loop("w = Add (v, x)", "matmult-fp16")["w"] is Reason.SCOPE
