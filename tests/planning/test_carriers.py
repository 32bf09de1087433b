"""Data movement is narrow where that rounds nothing anew for a wide reader."""

import pytest

from onnxcast.planning import Reason
from tests.planning.plans import reasons

BEHIND, AHEAD, WIDE = Reason.CARRIES_NARROW, Reason.FEEDS_NARROW, Reason.CARRIES_WIDE
AXIS = "int64 k = {0}"


def test_a_carrier_behind_a_narrow_producer_is_narrow_even_for_a_wide_reader() -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y) <{AXIS}> {{
        m = MatMul (x, x) t = Transpose (m) i = Identity (t) y = CumSum (i, k)
    }}"""
    found = reasons(text)
    assert (found["t"], found["i"]) == (BEHIND, BEHIND)


def test_a_carrier_in_front_of_narrow_readers_only_is_narrow() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) {
        t = Transpose (x) i = Identity (t) a = MatMul (i, i) y = Add (i, a)
    }"""
    found = reasons(text)
    assert (found["t"], found["i"]) == (AHEAD, AHEAD)


@pytest.mark.parametrize("reader", ["CumSum (t, k)", "Floor (t)", "local.Unknown (t)"])
def test_a_carrier_of_wide_data_with_a_wide_reader_is_wide(reader: str) -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y, float[2,2] z) <{AXIS}> {{
        t = Transpose (x) y = MatMul (t, t) z = {reader}
    }}"""
    assert reasons(text)["t"] is WIDE


def test_a_carrier_of_wide_data_to_a_graph_output_is_wide() -> None:
    text = """g (float[2,2] x) => (float[2,2] t, float[2,2] y) { t = Transpose (x) y = Abs (t) }"""
    assert reasons(text)["t"] is WIDE


def test_a_carrier_of_narrow_and_wide_data_with_a_wide_reader_is_wide() -> None:
    text = f"""g (float[2,2] x) => (float[4,2] y) <{AXIS}> {{
        m = MatMul (x, x) c = Concat <axis = 0> (m, x) y = CumSum (c, k)
    }}"""
    assert reasons(text)["c"] is WIDE


def test_a_carrier_of_narrow_and_wide_data_with_narrow_readers_is_narrow() -> None:
    text = """g (float[2,2] x) => (float[4,2] y) {
        m = MatMul (x, x) c = Concat <axis = 0> (m, x) y = Abs (c)
    }"""
    assert reasons(text)["c"] is AHEAD


@pytest.mark.parametrize(("value", "why"), [("0.5", BEHIND), ("-2", BEHIND), ("0.1", WIDE)])
def test_a_constant_carried_along_must_fit(value: str, why: Reason) -> None:
    text = f"""g (float[2,2] x, bool[2,2] b) => (float[2,2] y) <{AXIS}, float v = {{{value}}}> {{
        m = MatMul (x, x) w = Where (b, m, v) y = CumSum (w, k)
    }}"""
    assert reasons(text)["w"] is why


def test_shape_readers_take_what_their_operand_is() -> None:
    text = """g (float[2,2] x) => (int64[2] s, int64[2] t, int64[2] u) {
        m = MatMul (x, x) s = Shape (m) t = Shape (x)
        p = Transpose (m) u = Shape (p)
    }"""
    found = reasons(text)
    assert (found["s:T"], found["u:T"], found["t:T"]) == (BEHIND, BEHIND, Reason.METADATA)


def test_a_shape_reader_does_not_make_a_carrier_narrow_or_wide() -> None:
    text = """g (float[2,2] x) => (int64[2] s, int64[2] r, float[2,2] y) {
        t = Transpose (x) s = Shape (t) y = Abs (t)
        u = Identity (x) r = Shape (u)
    }"""
    found = reasons(text)
    assert (found["t"], found["s:T"]) == (AHEAD, BEHIND)
    assert found["u"] is WIDE


def test_carriers_between_scopes_follow_the_same_rule() -> None:
    text = """g (float[2,2] x, bool c) => (float[2,2] y) {
        t = Transpose (x)
        y = If (c) <
            then_branch = then () => (float[2,2] a) { a = Abs (t) },
            else_branch = other () => (float[2,2] e) { i = Identity (t) e = Neg (i) }
        >
    }"""
    found = reasons(text)
    assert (found["t"], found["i"]) == (AHEAD, AHEAD)


def test_in_scope_matmult_carriers_follow_the_products() -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y) <{AXIS}> {{
        m = MatMul (x, x) t = Transpose (m) r = Relu (t) u = Transpose (r) y = MatMul (u, u)
    }}"""
    found = reasons(text, "matmult-fp16")
    assert (found["t"], found["r"], found["u"]) == (BEHIND, Reason.SCOPE, AHEAD)
