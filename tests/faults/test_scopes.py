"""Branches, loops and functions: types per scope, readers in every scope, initializers kept."""

import numpy as np
import pytest

from tests.faults.conversions import both_formats, convert, floats, parse

YES, NO = {"c": np.array(True)}, {"c": np.array(False)}


def branches(then: str, other: str) -> str:
    return f"o = If (c) <then_branch = t () => {then}, else_branch = e () => {other}>"


@both_formats
def test_an_if_that_captures_an_activation_ends_in_one_type(dtype: str) -> None:
    body = branches(
        "(float[3,4] t) <float[4,4] Wt> { m = MatMul (h, Wt) t = Add (m, b) }",
        "(float[3,4] e) { e = Identity (h) }",
    )
    found = convert(
        f"""g (float[3,4] x, bool c) => (float[3,2] y) <float[4,4] W, float[4] b, float[4,2] V> {{
            h = MatMul (x, W) {body} y = MatMul (o, V)
        }}""",
        dtype,
        feeds=YES,
        more=[NO],
    )
    assert found.is_narrow("MatMul", "Add")


@both_formats
def test_an_if_that_captures_a_graph_input_reads_it_at_its_type(dtype: str) -> None:
    body = branches(
        "(float[3,5] t) { m = MatMul (x, W) t = Relu (m) }",
        "(float[3,5] e) { e = MatMul (x, W) }",
    )
    found = convert(
        f"g (float[3,4] x, bool c) => (float[3,5] o) <float[4,5] W> {{ {body} }}",
        dtype,
        feeds=YES,
        more=[NO],
    )
    assert found.is_narrow("MatMul", "Relu")
    assert found.model.graph.initializer[0].data_type != 1, "a weight read in branches is narrow"


@both_formats
def test_branches_may_pass_captured_values_through(dtype: str) -> None:
    body = branches("(float[3,4] t) { t = Identity (x) }", "(float[3,4] e) { e = Identity (h) }")
    convert(
        f"""g (float[3,4] x, bool c) => (float[3,4] o, float[3,4] y) {{
            h = Relu (x) {body} y = Sigmoid (o)
        }}""",
        dtype,
        feeds=YES,
        more=[NO],
    )


@both_formats
def test_an_op_kept_inside_a_branch_stays_wide_alone(dtype: str) -> None:
    body = branches(
        "(float[3,4] t) { m = MatMul (h, W) [keep] k = Softmax (m) t = Mul (k, m) }",
        "(float[3,4] e) { e = Neg (h) }",
    )
    found = convert(
        f"""g (float[3,4] x, bool c) => (float[3,4] y) <float[4,4] W> {{
            h = MatMul (x, W) {body} y = MatMul (o, W)
        }}""",
        dtype,
        feeds=YES,
        more=[NO],
        keep_nodes=["keep"],
    )
    assert found.is_wide("keep")
    assert found.is_narrow("MatMul", "Mul", "Neg")


@both_formats
def test_both_branches_may_bear_the_same_names(dtype: str) -> None:
    body = branches(
        "(float[3,4] r) <float[4,4] K> { m = MatMul (x, K) r = Relu (m) }",
        "(float[3,4] r) <float[4] K = {0.5, 1.0, 2.0, 3.0}>"
        " { m = Mul (x, K) r = CumSum (m, axis) }",
    )
    found = convert(
        f"""g (float[3,4] x, bool c) => (float[3,4] y) <int64 axis = {{1}}> {{
            {body} y = Neg (o)
        }}""",
        dtype,
        feeds=YES,
        more=[NO],
    )
    assert found.is_narrow("MatMul", "Mul", "Relu")
    assert found.is_wide("CumSum")


@both_formats
def test_an_initializer_of_a_branch_that_is_no_float_survives(dtype: str) -> None:
    body = branches(
        "(float[N,M] t) <int64[1] axes = {1}, float k = {2.0}>"
        " { s = Squeeze (h, axes) t = Mul (s, k) }",
        "(float[N,M] e) <int64[2] shape = {3, -1}> { e = Reshape (h, shape) }",
    )
    found = convert(
        f"""g (float[3,1,4] x) => (float[3,5] o) <float[4,5] W, int64 one = {{1}}> {{
            h = MatMul (x, W) sh = Shape (h) d = Gather (sh, one) c = Equal (d, one) {body}
        }}""",
        dtype,
    )
    assert found.is_narrow("MatMul", "Mul")
    assert found.count("If") == 1


@both_formats
def test_an_initializer_read_in_branches_only_is_counted(dtype: str) -> None:
    body = branches(
        "(float[3,4] t) { m = MatMul (x, W) t = Add (m, b) }",
        "(float[3,4] e) { n = MatMul (x, U) e = Max (n, b) }",
    )
    found = convert(
        f"""g (float[3,4] x, bool c) => (float[3,4] y) <float[4,4] W, float[4,4] U, float[4] b> {{
            {body} y = Add (o, b)
        }}""",
        dtype,
        feeds=YES,
        more=[NO],
    )
    assert {tensor.name for tensor in found.model.graph.initializer} == {"W", "U", "b"}
    assert {tensor.data_type for tensor in found.model.graph.initializer} != {1}


@both_formats
def test_an_initializer_read_narrow_here_and_wide_in_a_branch_is_kept_twice(dtype: str) -> None:
    body = branches("(float[4] t) { t = CumSum (b, axis) }", "(float[4] e) { e = Identity (b) }")
    found = convert(
        f"""g (float[3,4] x, bool c) => (float[4] o, float[3,4] y)
        <float[4,4] W, float[4] b = {{0.1, 123.456, 1e-3, 7e-9}}, int64 axis = {{0}}> {{
            {body} h = MatMul (x, W) y = Add (h, b)
        }}""",
        dtype,
        feeds=YES,
        more=[NO],
        tolerance=1e-2 if dtype == "float16" else None,
    )
    assert found.is_wide("CumSum")
    assert found.is_narrow("Add")


DEEP = """g (float[3,4] x, bool c) => (float[3,4] y) <float[4,4] W, float[4] b, int64 axis = {1}> {
    h = MatMul (x, W)
    o = If (c) <
        then_branch = t1 () => (float[3,4] p) {
            k = Relu (h)
            p = If (c) <
                then_branch = t2 () => (float[3,4] q) {
                    u = Add (k, b)
                    q = If (c) <
                        then_branch = t3 () => (float[3,4] r) {
                            m = MatMul (h, W) n = Mul (m, u) r = Add (n, x)
                        },
                        else_branch = e3 () => (float[3,4] r) { r = CumSum (u, axis) }
                    >
                },
                else_branch = e2 () => (float[3,4] q) { q = Floor (h) }
            >
        },
        else_branch = e1 () => (float[3,4] p) { k = Neg (x) p = Mul (k, h) }
    >
    y = Sub (o, x)
}"""


@both_formats
def test_captures_are_right_three_scopes_deep(dtype: str) -> None:
    found = convert(DEEP, dtype, feeds=YES, more=[NO])
    assert found.is_narrow("MatMul", "Mul", "Relu", "Neg", "Sub")
    assert found.is_wide("CumSum", "Floor")


LOOP = """g (float[2,3] s, float[3,3] unused) => (float[2,3] last, float[N,2,3] all)
<float[3,3] U, float[3] b, int64 n = {4}, bool go = {1}> {
    last, all = Loop (n, go, s) <body = step (int64 i, bool on, float[2,3] v)
        => (bool on2, float[2,3] w, float[2,3] out) {
        on2 = Identity (on) m = MatMul (v, U) a = Add (m, b) w = Tanh (a) out = Relu (w)
    }>
}"""


@both_formats
def test_the_state_of_a_loop_has_one_type_at_entry_body_and_exit(dtype: str) -> None:
    # The reference implementation joins scan outputs where it should stack them.
    found = convert(LOOP, dtype, tolerance=1e-2 if dtype == "float16" else 8e-2, by="twin")
    assert found.is_narrow("MatMul", "Add", "Tanh")


@both_formats
def test_a_loop_that_never_runs_gives_its_initial_state_bit_for_bit(dtype: str) -> None:
    convert(
        LOOP.replace("n = {4}", "n = {0}"),
        dtype,
        feeds={"s": floats([[0.1, 1 / 3, 70001], [1e-9, 3e38, -0.7]])},
        tolerance=1e-30,
        by="twin",
    )


@both_formats
def test_a_loop_whose_state_is_passed_on_or_is_an_initializer_is_valid(dtype: str) -> None:
    found = convert(
        """g (float[2,3] x) => (float[2,3] last, float[2,3] same, float[2,3] y)
        <float[3,3] U, float[2,3] zero, int64 n = {3}, bool go = {1}> {
            last, same = Loop (n, go, zero, x) <body = step (int64 i, bool on, float[2,3] v,
                float[2,3] k) => (bool on2, float[2,3] w, float[2,3] k2) {
                on2 = Identity (on) m = MatMul (k, U) w = Add (v, m) k2 = Identity (k)
            }>
            y = MatMul (last, U)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_a_sum_that_a_loop_carries_is_no_smaller_for_being_narrow(dtype: str) -> None:
    """A narrow Add stalls where the step is less than half a unit of the sum."""
    convert(
        """g (float x) => (float total) <float zero = {0.0}, int64 n = {5000}, bool go = {1}> {
            total = Loop (n, go, zero) <body = step (int64 i, bool on, float v)
                => (bool on2, float w) { on2 = Identity (on) w = Add (v, x) }>
        }""",
        dtype,
        feeds={"x": np.array(1, np.float32)},
        by="twin",
    )


@both_formats
def test_the_state_of_a_scan_and_its_initializer_have_one_type(dtype: str) -> None:
    found = convert(
        """g (float[5,2,4] xs) => (float[2,2] y, float[5,2,3] ys)
        <float[2,3] zero, float[4,3] U, float[3,2] V> {
            last, ys = Scan (zero, xs) <num_scan_inputs = 1, body = step
                (float[2,3] s, float[2,4] x) => (float[2,3] s2, float[2,3] out) {
                m = MatMul (x, U) s2 = Add (s, m) g = Sigmoid (s2) out = Neg (g)
            }>
            y = MatMul (last, V)
        }""",
        dtype,
        tolerance=1e-2 if dtype == "float16" else 6e-2,
    )
    assert found.is_narrow("MatMul", "Sigmoid")


@both_formats
def test_a_scan_without_state_inside_a_branch_is_valid(dtype: str) -> None:
    body = branches(
        """(float[5,2,3] t) {
            t = Scan (xs) <num_scan_inputs = 1, body = step (float[2,4] x) => (float[2,3] out) {
                out = MatMul (x, U) }>
        }""",
        "(float[5,2,3] e) { e = MatMul (xs, U) }",
    )
    found = convert(
        f"g (float[5,2,4] xs, bool c) => (float[5,2,3] o) <float[4,3] U> {{ {body} }}",
        dtype,
        feeds=YES,
        more=[NO],
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_a_loop_inside_a_branch_inside_a_loop_is_valid(dtype: str) -> None:
    found = convert(
        """g (float[3,3] x, bool c) => (float[3,3] y) <float[3,3] W, int64 n = {2}, bool go = {1}> {
            y = Loop (n, go, x) <body = outer (int64 i, bool on, float[3,3] v)
                => (bool on2, float[3,3] w) {
                on2 = Identity (on)
                w = If (c) <
                    then_branch = t () => (float[3,3] p) {
                        p = Loop (n, go, v) <body = inner (int64 j, bool up, float[3,3] u)
                            => (bool up2, float[3,3] z) {
                            up2 = Identity (up) m = MatMul (u, W) z = Tanh (m)
                        }>
                    },
                    else_branch = e () => (float[3,3] q) { q = Neg (v) }
                >
            }>
        }""",
        dtype,
        feeds=YES,
        more=[NO],
        tolerance=1e-2 if dtype == "float16" else 8e-2,
    )
    assert found.is_narrow("MatMul", "Tanh", "Neg")


FUNCTION = """g (float[3,4] x) => (float[3,2] y)
    <float[4,5] W1, float[5] b1, float[5,2] W2, float[2] b2> {
    [one] a = local.act <alpha = 0.2> (x, W1, b1) [two] y = local.act <alpha = 0.1> (a, W2, b2)
}
<opset_import: ["" : 17], domain: "local"> act <alpha> (X, W, B) => (Y) {
    m = MatMul (X, W) a = Add (m, B) half = Constant <value_float = 0.5> () h = Mul (a, half)
    Y = LeakyRelu <alpha: float = @alpha> (h)
}"""


@pytest.mark.parametrize("functions", ["keep", "specialise", "inline"])
@both_formats
def test_a_function_and_its_calls_agree_on_types(dtype: str, functions: str) -> None:
    found = convert(parse(FUNCTION, domains='"local" : 1'), dtype, functions=functions)
    if functions == "keep":
        assert found.is_wide("MatMul", "Mul")
    else:
        assert found.is_narrow("MatMul", "Add", "Mul")
    assert len(found.model.functions) == (0 if functions == "inline" else 1)


NESTED_FUNCTIONS = """g (float[3,4] x, bool c) => (float[3,4] y) <float[4,4] W> {
    [product] h = MatMul (x, W)
    y = If (c) <then_branch = t () => (float[3,4] p) { p = local.outer (h, W) },
                else_branch = e () => (float[3,4] q) { q = local.inner (h) }>
}
<opset_import: ["" : 17, "local" : 1], domain: "local"> outer (X, K) => (Y) {
    m = MatMul (X, K) Y = local.inner (m)
}
<opset_import: ["" : 17], domain: "local"> inner (X) => (Y) {
    two = Constant <value_floats = [2.0]> () s = Mul (X, two) Y = Tanh (s)
}"""


@pytest.mark.parametrize("functions", ["keep", "specialise", "inline"])
@both_formats
def test_functions_that_call_functions_from_a_branch_are_valid(dtype: str, functions: str) -> None:
    model = parse(NESTED_FUNCTIONS, domains='"local" : 1')
    found = convert(model, dtype, functions=functions, feeds=YES, more=[NO])
    assert found.is_narrow("product") if functions == "keep" else found.is_narrow("MatMul", "Tanh")


@pytest.mark.parametrize("functions", ["keep", "specialise", "inline"])
@both_formats
def test_a_function_called_with_two_types_serves_both(dtype: str, functions: str) -> None:
    text = """g (float[3,4] x, double[3,4] d) => (float[3,4] y, double[3,4] z) <float[4,4] W> {
        h = MatMul (x, W) y = local.f (h) z = local.f (d)
    }
    <opset_import: ["" : 17], domain: "local"> f (X) => (Y) { r = Relu (X) Y = Tanh (r) }"""
    convert(parse(text, domains='"local" : 1'), dtype, functions=functions)
