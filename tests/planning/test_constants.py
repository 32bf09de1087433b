"""Constants that the narrow format cannot hold keep their region wide, as far as it reaches."""

import pytest

from onnxcast.planning import Reason
from tests.planning.plans import formats_of, reasons

REQUESTED, RANGE, VANISHING = Reason.REQUESTED, Reason.OUT_OF_RANGE, Reason.VANISHING

MASK = """g (float[2,4] q, float[4,4] k, float[2,4] mask, float[4,3] v) => (float[2,3] y)
<float one = {1}, float lowest = {LOWEST}> {
    s = MatMul (q, k)
    i = Sub (one, mask)
    m = Mul (i, lowest)
    a = Add (s, m)
    p = Softmax (a)
    y = MatMul (p, v)
}"""


@pytest.mark.parametrize(
    ("lowest", "token", "wide"),
    [
        ("-3.4028234663852886e38", "all-fp16", True),
        ("-3.4028234663852886e38", "all-bf16", True),
        ("-1e9", "all-fp16", True),
        ("-1e9", "all-bf16", False),
        ("-65504", "all-fp16", False),
        ("-10000", "all-fp16", False),
    ],
)
def test_a_masked_softmax_is_wide_and_the_product_behind_it_narrow(
    lowest: str, token: str, wide: bool
) -> None:
    found = reasons(MASK.replace("LOWEST", lowest), token)
    assert {found[name] for name in "map"} == ({RANGE} if wide else {REQUESTED})
    assert found["i"] is (Reason.ISLAND if wide else REQUESTED)
    assert (found["s"], found["y"]) == (Reason.MATMUL_OPERANDS, Reason.MATMUL_OPERANDS)


@pytest.mark.parametrize(
    "node", ["Clip (x, lowest, six)", "Min (x, highest)", "Max (lowest, x)", "Clip (x, lowest)"]
)
def test_a_limit_out_of_range_does_not_spread(node: str) -> None:
    text = f"""g (float[4] x) => (float[4] y)
    <float lowest = {{-3e38}}, float highest = {{3e38}}, float six = {{6}}> {{
        c = {node} y = Sigmoid (c)
    }}"""
    found = reasons(text)
    assert (found["c"], found["y"]) == (RANGE, REQUESTED)


def test_what_is_large_stays_large_behind_limits_that_limit_nothing() -> None:
    text = """g (float[4] x) => (float[4] y)
    <float lowest = {-3e38}, float highest = {3e38}, float scale = {262144}> {
        m = Mul (x, scale) c = Clip (m, lowest, highest) a = Abs (c) y = Div (a, scale)
    }"""
    found = reasons(text)
    assert {found[name] for name in "mcay"} == {RANGE}


def test_a_region_scaled_up_ends_where_it_is_scaled_down() -> None:
    text = """g (float[4] x) => (float[4] z) <float scale = {262144}, float one = {1}> {
        m = Mul (x, scale) a = Add (m, one) d = Div (a, scale) z = Add (d, one)
    }"""
    found = reasons(text)
    assert {found[name] for name in "mad"} == {RANGE}
    assert found["z"] is REQUESTED


def test_dividing_by_a_vector_scales_down_by_its_smallest_element() -> None:
    text = """g (float[2] x) => (float[2] z)
    <float[2] up = {262144, 262144}, float[2] mixed = {262144, 1}> {
        m = Mul (x, up) d = Div (m, mixed) z = Abs (d)
    }"""
    assert reasons(text)["z"] is RANGE


def test_what_is_divided_by_something_large_is_small() -> None:
    text = "g (float[4] x) => (float[4] y) <float c = {1e30}> { d = Div (x, c) y = Abs (d) }"
    found = reasons(text)
    assert (found["d"], found["y"]) == (RANGE, REQUESTED)


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "Softmax", "Erf"])
def test_a_bounded_op_ends_the_region(op: str) -> None:
    text = f"""g (float[4] x) => (float[4] y) <float c = {{1e6}}> {{
        m = Mul (x, c) b = {op} (m) y = Abs (b)
    }}"""
    found = reasons(text)
    assert (found["b"], found["y"]) == (RANGE, REQUESTED)


def test_large_weights_keep_their_product_wide() -> None:
    text = """g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 70000, 4}> {
        m = MatMul (x, w) y = Relu (m)
    }"""
    assert set(reasons(text).values()) == {RANGE}
    assert set(formats_of(text, "all-bf16").values()) == {"bfloat16"}


@pytest.mark.parametrize(
    ("value", "token", "why"),
    [
        ("1e-12", "all-fp16", VANISHING),
        ("1e-12", "all-bf16", REQUESTED),
        ("1e-7", "all-fp16", VANISHING),  # a fifth larger in float16
        ("1e-5", "all-fp16", REQUESTED),
        ("0.1", "all-fp16", REQUESTED),
        ("0", "all-fp16", REQUESTED),
        ("-1e-12", "all-fp16", VANISHING),
        ("65504", "all-fp16", REQUESTED),
        ("65519", "all-fp16", REQUESTED),  # rounds to 65504
        ("65520", "all-fp16", RANGE),
        ("inf", "all-fp16", REQUESTED),  # an infinity stays one
        ("-inf", "all-bf16", REQUESTED),
    ],
)
def test_a_guard_that_the_format_cannot_hold_keeps_its_op_wide(
    value: str, token: str, why: Reason
) -> None:
    text = f"g (float[4] x) => (float[4] y) <float eps = {{{value}}}> {{ y = Add (x, eps) }}"
    assert reasons(text, token)["y"] is why


def test_small_numbers_among_larger_ones_are_weights() -> None:
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1e-12, 1}> { y = Mul (x, w) }"
    assert reasons(text)["y"] is REQUESTED


def test_a_constant_that_would_not_be_narrowed_does_not_count() -> None:
    text = """g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 1e-12}> {
        y = Resize (x, , s)
    }"""
    found = reasons(text)
    assert (found["y"], found["y:tensor(float)"]) == (REQUESTED, Reason.SCHEMA)


def test_constant_nodes_and_captured_constants_count() -> None:
    text = """g (float[4] x, bool c) => (float[4] y) <float w = {1e6}> {
        k = Constant <value = float {1e-12}> ()
        a = Add (x, k)
        y = If (c) <
            then_branch = then () => (float[4] t) { t = Mul (a, w) },
            else_branch = other () => (float[4] e) { e = Abs (a) }
        >
    }"""
    found = reasons(text)
    assert (found["a"], found["t"], found["e"]) == (VANISHING, RANGE, REQUESTED)


def test_a_constant_that_may_be_fed_does_not_count() -> None:
    text = "g (float[4] x, float w) => (float[4] y) <float w = {1e6}> { y = Mul (x, w) }"
    assert reasons(text)["y"] is REQUESTED
