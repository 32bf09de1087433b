"""Regions that stay wide because of what their values are: counts, phases, statistics."""

import pytest

from onnxcast.planning import Reason
from tests.planning.plans import reasons

REQUESTED, INTEGER = Reason.REQUESTED, Reason.INTEGER_VALUED
ONE = "float[1] one = {1}, float[1] two = {2}, float[1] half = {0.5}"


def test_counts_stay_wide_through_whole_arithmetic_and_no_further() -> None:
    text = f"""g (int64[4] i) => (float[4] y) <{ONE}> {{
        c = Cast <to = 1> (i)
        a = Add (c, one)
        n = Neg (a)
        m = Mul (n, two)
        d = Div (m, two)
        y = Add (d, one)
    }}"""
    found = reasons(text)
    assert {found[name] for name in "anm"} == {INTEGER}
    assert found["c"] is Reason.USER_CAST
    assert (found["d"], found["y"]) == (REQUESTED, REQUESTED)


def test_counts_are_followed_through_data_movement() -> None:
    text = f"""g (int64[4] i, bool[4] b) => (float[8] y) <{ONE}, int64[2] s = {{2, 2}}> {{
        c = Cast <to = 1> (i)
        r = Reshape (c, s) t = Transpose (r) f = Flatten <axis = 0> (t) q = Squeeze (f)
        w = Where (b, q, one)
        k = Concat <axis = 0> (w, q)
        y = Add (k, one)
    }}"""
    assert reasons(text)["y"] is INTEGER


def test_a_fraction_ends_the_counting() -> None:
    text = f"""g (int64[4] i, float[4] x) => (float[4] y, float[4] z) <{ONE}> {{
        c = Cast <to = 1> (i) y = Mul (c, half) z = Mul (c, x)
    }}"""
    found = reasons(text)
    assert (found["y"], found["z"]) == (REQUESTED, REQUESTED)


@pytest.mark.parametrize(
    ("source", "token", "why"),
    [
        ("int64", "all-fp16", INTEGER),
        ("int32", "all-bf16", INTEGER),
        ("int16", "all-fp16", INTEGER),
        ("uint16", "all-bf16", INTEGER),
        ("int8", "all-fp16", REQUESTED),
        ("uint8", "all-fp16", REQUESTED),
        ("int8", "all-bf16", REQUESTED),
        ("uint8", "all-bf16", REQUESTED),
        ("bool", "all-fp16", REQUESTED),
        ("float16", "all-fp16", REQUESTED),
    ],
)
def test_only_integers_that_the_format_does_not_contain_count(
    source: str, token: str, why: Reason
) -> None:
    text = f"""g ({source}[4] i) => (float[4] y) <{ONE}> {{
        c = Cast <to = 1> (i) y = Add (c, one) z = Sigmoid (y)
    }}"""
    assert reasons(text, token)["y"] is why


def test_a_range_counts() -> None:
    text = f"""g (float a, float b, float s) => (float[N] y) <{ONE}> {{
        r = Range (a, b, s) y = Add (r, one)
    }}"""
    found = reasons(text)
    assert (found["r"], found["y"]) == (Reason.SCHEMA, INTEGER)


@pytest.mark.parametrize(
    "product",
    ["MatMul (u, f)", "Mul (u, f)", "Mul (f, u)", 'Einsum <equation = "ij,jk->ik"> (u, f)'],
)
def test_a_phase_is_wide_back_to_its_counts_through_one_product(product: str) -> None:
    text = f"""g (int64[4] i) => (float[2,4] s, float[2,4] k) <float[1,2] f = {{1, 0.01}}> {{
        c = Cast <to = 1> (i)
        one = Constant <value = int64[1] {{1}}> ()
        u = Unsqueeze (c, one)
        p = {product}
        t = Transpose (p)
        s = Sin (t) k = Cos (t)
    }}"""
    found = reasons(text)
    assert {found[name] for name in "psk"} == {INTEGER}


def test_a_phase_through_a_selection_is_wide() -> None:
    text = """g (int64[4] i, bool[4] b) => (float[4] s) <float f = {0.01}, float[4] z = {0,0,0,0}> {
        c = Cast <to = 1> (i) p = Mul (c, f) w = Where (b, p, z) s = Sin (w)
    }"""
    found = reasons(text)
    assert (found["p"], found["s"]) == (INTEGER, INTEGER)


@pytest.mark.parametrize(
    "body",
    [
        "c = Cast <to = 1> (i) p = Mul (c, f) q = Mul (p, f) s = Sin (q)",
        "c = Cast <to = 1> (i) p = Mul (x, f) q = Identity (p) s = Cos (q)",
        "c = Cast <to = 1> (i) p = Mul (c, f) q = Sigmoid (p) s = Sin (q)",
    ],
)
def test_an_argument_that_does_not_come_from_counts_by_one_product_is_no_phase(body: str) -> None:
    text = f"g (int64[4] i, float[4] x) => (float[4] s) <float f = {{0.01}}> {{ {body} }}"
    found = reasons(text)
    assert (found["p"], found["s"]) == (REQUESTED, REQUESTED)


def test_what_becomes_an_integer_is_wide_back_through_arithmetic() -> None:
    text = f"""g (float[2,2] x) => (int64[4] j) <{ONE}, int64[1] s = {{4}}> {{
        m = MatMul (x, x)
        d = Div (m, two)
        a = Add (d, half)
        r = Reshape (a, s)
        f = Floor (r)
        j = Cast <to = 7> (f)
    }}"""
    found = reasons(text)
    assert (found["d"], found["a"], found["f"]) == (INTEGER, INTEGER, Reason.JUMPING)
    assert found["m"] is Reason.MATMUL_OPERANDS


def test_two_casts_to_integers_share_what_is_behind_them() -> None:
    text = f"""g (float[4] x) => (int64[4] i, int32[4] j) <{ONE}> {{
        d = Div (x, two) e = Mul (d, two) i = Cast <to = 7> (e) f = Add (d, one)
        j = Cast <to = 6> (f)
    }}"""
    found = reasons(text)
    assert {found[name] for name in "def"} == {INTEGER}


def test_counts_captured_by_a_branch_are_counts() -> None:
    text = f"""g (int64[4] i, bool b) => (float[4] y) <{ONE}> {{
        c = Cast <to = 1> (i)
        y = If (b) <
            then_branch = then () => (float[4] t) {{ t = Add (c, one) }},
            else_branch = other () => (float[4] e) {{ e = Div (c, two) }}
        >
    }}"""
    found = reasons(text)
    assert (found["t"], found["e"]) == (INTEGER, REQUESTED)


def test_a_norm_written_out_is_wide_from_its_squares_to_where_it_meets_data() -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float eps = {0.00001}> {
        m = ReduceMean (x)
        d = Sub (x, m)
        s = Mul (d, d)
        v = ReduceMean (s)
        e = Add (v, eps)
        q = Sqrt (e)
        y = Div (d, q)
    }"""
    found = reasons(text)
    assert (found["m"], found["v"]) == (Reason.ACCUMULATING, Reason.ACCUMULATING)
    assert {found[name] for name in "seq"} == {Reason.STATISTICS}
    assert (found["d"], found["y"]) == (REQUESTED, REQUESTED)


def test_a_power_of_two_in_front_of_a_sum_is_a_square() -> None:
    text = """g (float[2,4] x) => (float[1,1] y) <float two = {2}, int64[2] s = {4, 2}> {
        p = Pow (x, two) r = Reshape (p, s) y = ReduceSum (r)
    }"""
    assert reasons(text)["p"] is Reason.STATISTICS


def test_in_scope_matmult_statistics_are_out_of_scope() -> None:
    text = "g (float[2,4] x) => (float[1,1] y) { s = Mul (x, x) y = ReduceSum (s) }"
    assert reasons(text, "matmult-fp16")["s"] is Reason.SCOPE


def test_arithmetic_in_front_of_a_logarithm_is_wide() -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y) <{ONE}> {{
        m = MatMul (x, x) e = Exp (m) a = Add (e, one) y = Log (a)
    }}"""
    found = reasons(text)
    assert (found["a"], found["y"]) == (Reason.AMPLIFYING, Reason.AMPLIFYING)
    assert found["m"] is Reason.MATMUL_OPERANDS


def test_where_two_values_meet_in_front_of_a_logarithm_the_chain_ends() -> None:
    text = "g (float[4] x, float[4] w) => (float[4] y) { a = Add (x, w) y = Log (a) }"
    assert reasons(text)["a"] is REQUESTED


def test_the_rest_of_a_rounding_is_wide() -> None:
    text = """g (float[4] x) => (float[4] y, float[4] z) {
        h = Cast <to = 10> (x) u = Cast <to = 1> (h) y = Sub (x, u) v = Sub (x, x) z = Neg (v)
    }"""
    found = reasons(text)
    assert (found["y"], found["z"]) == (Reason.RESIDUE, REQUESTED)
