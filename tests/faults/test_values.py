"""Numbers that a narrow format loses: overflow, underflow, long sums, whole numbers, masks."""

import numpy as np
import pytest

import onnxcast
from tests.faults.conversions import both_formats, convert, floats, parse

LOWEST = "-3.4028234663852886e38"

MASK = np.tril(np.ones((4, 4), np.int64))
MASK[2] = 0  # one row sees nothing

# How a mask meets the scores s, and where the mask m comes from.
MASKS = {
    "product": "f = Cast <to = 1> (m) i = Sub (one, f) b = Mul (i, low) a = Add (s, b)",
    "where": "c = Cast <to = 9> (m) a = Where (c, s, low)",
    "where then add": "c = Cast <to = 9> (m) b = Where (c, zero, low) a = Add (s, b)",
    "nine": "c = Cast <to = 9> (m) a = Where (c, s, nine)",
    "infinity": "c = Cast <to = 9> (m) a = Where (c, s, inf)",
    "shifted": "f = Cast <to = 1> (m) i = Sub (f, one) b = Mul (i, nine2) a = Add (s, b)",
    "unsqueezed": "f = Cast <to = 1> (m) i = Sub (one, f) b = Mul (i, low) u = Unsqueeze (b, ax)"
    " w = Squeeze (u, ax) a = Add (s, w)",
}


@pytest.mark.parametrize("name", MASKS)
@both_formats
def test_a_row_that_sees_nothing_is_as_it_was(dtype: str, name: str) -> None:
    model = parse(
        f"""g (float[4,8] q, float[8,4] k, float[4,3] v, int64[4,4] m) => (float[4,3] y)
        <float one = {{1.0}}, float zero = {{0.0}}, float low = {{{LOWEST}}}, float nine = {{-1e9}},
         float nine2 = {{1e9}}, float inf = {{0.0}}, int64[1] ax = {{0}}> {{
            s = MatMul (q, k) {MASKS[name]} p = Softmax (a) [out] y = MatMul (p, v)
        }}"""
    )
    infinity = next(tensor for tensor in model.graph.initializer if tensor.name == "inf")
    infinity.float_data[0] = -np.inf
    found = convert(
        model,
        dtype,
        feeds={"m": MASK if name != "infinity" else np.tril(np.ones((4, 4), np.int64))},
        tolerance=1e-2 if dtype == "float16" else 6e-2,
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_a_mask_that_the_user_feeds_is_read_wide_or_harmlessly(dtype: str) -> None:
    mask = np.where(MASK > 0, 0, np.finfo(np.float32).min).astype(np.float32)
    mask[2] = 0
    convert(
        """g (float[4,8] q, float[8,4] k, float[4,3] v, float[4,4] m) => (float[4,3] y) {
            s = MatMul (q, k) a = Add (s, m) p = Softmax (a) y = MatMul (p, v)
        }""",
        dtype,
        feeds={"m": mask},
        tolerance=1e-2 if dtype == "float16" else 6e-2,
    )


NORMS = {
    "sum of squares": "q = Mul (x, x) s = ReduceSum (q, ax) g = Add (s, eps) r = Sqrt (g)"
    " n = Div (x, r)",
    "reciprocal": "q = Mul (x, x) s = ReduceMean <axes = [1]> (q) g = Add (s, eps) r = Sqrt (g)"
    " i = Reciprocal (r) n = Mul (x, i)",
    "power": "q = Pow (x, two) s = ReduceMean <axes = [1]> (q) g = Add (s, eps) r = Sqrt (g)"
    " n = Div (x, r)",
    "length": "r = ReduceL2 <axes = [1]> (x) g = Max (r, eps) n = Div (x, g)",
    "clipped": "r = ReduceL2 <axes = [1]> (x) g = Clip (r, eps) n = Div (x, g)",
    "deviation": "m = ReduceMean <axes = [1]> (x) d = Sub (x, m) q = Mul (d, d)"
    " s = ReduceMean <axes = [1]> (q) g = Add (s, eps) r = Sqrt (g) n = Div (d, r)",
    "inverse power": "q = Mul (x, x) s = ReduceMean <axes = [1]> (q) g = Add (s, eps)"
    " i = Pow (g, minus) n = Mul (x, i)",
}


@pytest.mark.parametrize("name", NORMS)
@both_formats
def test_a_norm_written_out_keeps_its_guard(dtype: str, name: str) -> None:
    x = np.random.default_rng(0).normal(0, 1, (4, 4)).astype(np.float32)
    x[0] = 0
    x[1] = [3e-4, -2e-4, 1e-4, 4e-4]
    if name == "deviation":
        x[1] = [3.0, 3.5, 3.25, 3.125]
    found = convert(
        f"""g (float[4,4] x) => (float[4,5] y)
        <float[4,5] W, float eps = {{1e-12}}, float two = {{2.0}}, float minus = {{-0.5}},
         int64[1] ax = {{1}}> {{ {NORMS[name]} y = MatMul (n, W) }}""",
        dtype,
        feeds={"x": x},
        tolerance=1e-2 if dtype == "float16" else 4e-2,
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_long_sums_and_what_divides_them_stay_wide(dtype: str) -> None:
    found = convert(
        """g (float[1,1,512,512] x) => (float[1,3,1,1] y)
        <int64[2] ax = {2, 3}, float n = {262144.0}> {
            [sum] s = ReduceSum (x, ax) [div] m1 = Div (s, n)
            [mean] m2 = ReduceMean <axes = [2,3]> (x)
            m3 = GlobalAveragePool (x) y = Concat <axis = 1> (m1, m2, m3)
        }""",
        dtype,
        feeds={"x": np.random.default_rng(3).random((1, 1, 512, 512), np.float32) + 0.5},
        by="twin",
    )
    assert found.is_wide("sum", "div", "mean")


@both_formats
def test_norms_with_statistics_of_their_own_stay_wide(dtype: str) -> None:
    checks = (np.indices((8, 8)).sum(0) % 2 * 1024 - 512).astype(np.float32)
    found = convert(
        """g (float[1,2,8,8] x) => (float[1,2,8,8] y) <float[2] g, float[2] b, float[2,2,1,1] W> {
            [norm] n = InstanceNormalization (x, g, b) y = Conv (n, W)
        }""",
        dtype,
        feeds={"x": np.stack([checks, checks * 0.5])[None]},
    )
    assert found.is_wide("norm")


@both_formats
def test_lengths_computed_in_float_are_exact(dtype: str) -> None:
    found = convert(
        """g (int64[3] lens, float[T,8] x) => (int64[3] out, float[S,2] y)
        <float c1 = {-1.0}, float two = {2.0}, float one = {1.0}, float[2] half = {0.5, 1.0},
         int64[2] zeros = {0, 0}, int64[2] axes = {0, 1}, float[8,2] W> {
            [a] f = Cast <to = 1> (lens) [b] l1 = Add (f, c1) [c] l2 = Div (l1, two)
            [d] l3 = Floor (l2) [e] l4 = Add (l3, one) out = Cast <to = 7> (l4)
            sh = Shape (x) [h] sf = Cast <to = 1> (sh) [i] s2 = Mul (sf, half) [j] s3 = Floor (s2)
            si = Cast <to = 7> (s3) cut = Slice (x, zeros, si, axes) y = MatMul (cut, W)
        }""",
        dtype,
        feeds={
            "lens": np.array([5001, 4099, 70001]),
            "x": np.random.default_rng(3).normal(0, 0.5, (4102, 8)).astype(np.float32),
        },
    )
    assert found.is_wide("a", "b", "c", "d", "e", "h", "i", "j")
    assert found.is_narrow("MatMul")


# Whole numbers beyond 2048 (float16) and 256 (bfloat16), on their way back to an index.
COUNTS = {
    "scaled": "f = Cast <to = 1> (n) m = Mul (f, k) i = Cast <to = 7> (m)",
    "ceiled": "f = Cast <to = 1> (n) m = Div (f, k) c = Ceil (m) i = Cast <to = 7> (c)",
    "clipped": "f = Cast <to = 1> (n) m = Mul (f, k) c = Clip (m, zero, top) i = Cast <to = 7> (c)",
    "moved": "f = Cast <to = 1> (n) r = Reshape (f, shape) m = Mul (r, k) q = Squeeze (m, axes)"
    " i = Cast <to = 7> (q)",
    "fed": "m = Mul (x, k) i = Cast <to = 7> (m)",
    "rooted": "f = Cast <to = 1> (n) m = Sqrt (f) p = Mul (m, m) r = Round (p)"
    " i = Cast <to = 7> (r)",
    "chosen": "f = Cast <to = 1> (n) c = Greater (x, zero) w = Where (c, f, x)"
    " i = Cast <to = 7> (w)",
}


@pytest.mark.parametrize("name", COUNTS)
@both_formats
def test_whole_numbers_come_back_as_they_were(dtype: str, name: str) -> None:
    convert(
        f"""g (int64[3] n, float[3] x) => (int64[3] i)
        <float k = {{3.0}}, float zero = {{0.0}}, float top = {{9999.0}}, int64[2] shape = {{3, 1}},
         int64[1] axes = {{1}}> {{ {COUNTS[name]} }}""",
        dtype,
        feeds={"n": np.array([4099, 1, 2049]), "x": floats([2047.5, 4099, 257])},
    )


@both_formats
def test_positions_reach_sine_and_cosine_unrounded(dtype: str) -> None:
    found = convert(
        """g (int64[1,5] pos, float[5,8] h) => (float[5,8] y)
        <float[4,1] freq = {1.0, 0.1, 0.01, 0.001}, float[8,8] W> {
            f = Cast <to = 1> (pos) a = MatMul (freq, f) t = Transpose <perm = [1,0]> (a)
            c = Concat <axis = 1> (t, t) s = Sin (c) o = Cos (c) q = MatMul (h, W)
            m1 = Mul (q, s) m2 = Mul (q, o) y = Add (m1, m2)
        }""",
        dtype,
        feeds={"pos": np.array([[0, 1, 2049, 4099, 30001]])},
        tolerance=1e-2 if dtype == "float16" else 4e-2,
    )
    assert found.is_wide("Sin", "Cos")
    assert found.is_narrow("Mul", "Add")


SCALES = {
    "overflow and back": "a = Mul (x, big) y = Mul (a, small)",
    "underflow and back": "a = Mul (x, small) y = Mul (a, big)",
    "divided and back": "a = Div (x, tiny) y = Mul (a, tiny)",
    "through a carrier": "a = Mul (x, big) t = Transpose (a) y = Mul (t, small)",
    "squashed": "a = Mul (x, big) y = Tanh (a)",
    "vanishing guard": "a = Abs (x) b = Add (a, tiny) y = Div (x, b)",
    "guarded reciprocal": "a = Abs (x) b = Add (a, tiny) r = Reciprocal (b) y = Mul (x, r)",
    "guarded and expanded": "a = Abs (x) m = ReduceMax <axes = [1]> (a) b = Max (m, tiny)"
    " e = Expand (b, shape) y = Div (x, e)",
    "inverse of a small guard": "a = Abs (x) b = Add (a, small) r = Reciprocal (b) y = Mul (x, r)",
}


@pytest.mark.parametrize("name", SCALES)
@both_formats
def test_constants_out_of_range_keep_their_readers_wide(dtype: str, name: str) -> None:
    convert(
        f"""g (float[4,4] x) => (float[4,4] y)
        <float big = {{1e5}}, float small = {{1e-5}}, float tiny = {{1e-12}},
         int64[2] shape = {{4, 4}}> {{ {SCALES[name]} }}""",
        dtype,
        feeds={"x": floats([[-3, -1, 0, 2], [0] * 4, [3, 2.5, 0.1, -0.1], [1, 2, 3, 0]])},
        tolerance=5e-3 if dtype == "float16" else 2e-2,
    )


AMPLIFIED = {
    "logarithm of a probability": "s = Sigmoid (x) y = Log (s)",
    "logarithm of a tiny probability": "b = Mul (x, three) s = Softmax (b) y = Log (s)",
    "logarithm of a chosen probability": "b = Mul (x, three) s = Softmax (b) q = Transpose (s)"
    " y = Log (q)",
    "logarithm of a complement": "s = Sigmoid (x) c = Sub (one, s) d = Add (c, eps) y = Log (d)",
    "logarithm of one plus": "e = Exp (x) p = Add (one, e) y = Log (p)",
    "exponential": "y = Exp (x)",
    "sum of exponentials": "m = ReduceMax <axes = [1]> (x) d = Sub (x, m) e = Exp (d)"
    " s = ReduceSum (e, ax) l = Log (s) y = Add (l, m)",
    "softmax written out": "m = ReduceMax <axes = [1]> (x) d = Sub (x, m) e = Exp (d)"
    " s = ReduceSum (e, ax) y = Div (e, s)",
    "reciprocal": "a = Abs (x) b = Add (a, eps) y = Reciprocal (b)",
    "variance by moments": "q = Mul (x, x) a = ReduceMean <axes = [1]> (q)"
    " b = ReduceMean <axes = [1]> (x) c = Mul (b, b) y = Sub (a, c)",
    "gelu by a cube": "c = Pow (x, three) k = Mul (c, kk) a = Add (x, k) t = Tanh (a)"
    " p = Add (t, one) y = Mul (x, p)",
    "gelu by erf": "d = Div (x, root) e = Erf (d) p = Add (e, one) h = Mul (x, p)"
    " y = Mul (h, half)",
    "power of a base": "y = Pow (two, x)",
    "root of a sum": "q = Mul (x, x) s = ReduceSum (q, ax) y = Sqrt (s)",
    "tangent": "y = Tan (x)",
    "loss": "y = LogSoftmax (x)",
    "three operands": 'y = Einsum <equation = "ij,jk,kl->il"> (x, x, x)',
}


@pytest.mark.parametrize("name", AMPLIFIED)
@both_formats
def test_what_magnifies_errors_is_within_the_stated_tolerance(dtype: str, name: str) -> None:
    convert(
        f"""g (float[4,4] x) => (float[N,M] y)
        <float one = {{1.0}}, float two = {{2.0}}, float three = {{3.0}}, float half = {{0.5}},
         float eps = {{1e-7}}, float kk = {{0.044715}}, float root = {{1.41421}},
         int64[1] ax = {{1}}> {{ {AMPLIFIED[name]} }}""",
        dtype,
        feeds={"x": np.linspace(-4, 9, 16, dtype=np.float32).reshape(4, 4)},
        tolerance=1e-2 if dtype == "float16" else 6e-2,
        by="twin",
    )


JUMPS = {
    "ArgMax": "r = ArgMax <axis = 1> (x)",
    "TopK": "v, r = TopK (x, k)",
    "Floor": "f = Floor (x) r = Cast <to = 7> (f)",
    "Sign": "f = Sign (w) r = Cast <to = 7> (f)",
    "Greater": "b = Greater (x, c) r = Cast <to = 7> (b)",
    "Equal": "b = Equal (x, c) r = Cast <to = 7> (b)",
    "Mod": "f = Mod <fmod = 1> (x, c) r = Cast <to = 7> (f)",
    "NonZero": "r = NonZero (w)",
    "Unique": "u, i, j, r = Unique (x)",
    "Hardmax": "f = Hardmax (x) r = Cast <to = 7> (f)",
    "Not of Cast": "d = Sub (x, c) b = Cast <to = 9> (d) r = Cast <to = 7> (b)",
}


@pytest.mark.parametrize("name", JUMPS)
@both_formats
def test_results_that_jump_are_not_rounded_for(dtype: str, name: str) -> None:
    shape = "A" if name == "Unique" else "A,B"
    convert(
        f"""g (float[2,4] x, float[2,4] w, float[4,3] z) => (int64[{shape}] r, float[2,3] y)
        <float c = {{1.0009}}, int64[1] k = {{2}}> {{ {JUMPS[name]} y = MatMul (x, z) }}""",
        dtype,
        feeds={
            "w": floats([[1e-9, -1e-9, 0, 1], [-0.0, 3e-46, 1e-38, 2]]),
            "x": floats([[1.0001, 1.0009, 1.001, 0.9999], [2.0001, 2.0, -1.0009, 1.00091]]),
        },
        by="twin",
    )


def test_a_residual_stream_beyond_float16_is_narrow_in_bfloat16() -> None:
    """Without data a plan cannot know the size of inputs: in float16 a repair keeps it wide."""
    model = parse(
        """g (float[1,3,8] a, float[1,3,8] b) => (float[1,3,4] y)
        <float[8,4] W, float[8] g> {
            r = Add (a, b) n = LayerNormalization (r, g) y = MatMul (n, W)
        }"""
    )
    random = np.random.default_rng(0)
    feeds = {
        "a": np.full((1, 3, 8), 4e4, np.float32),
        "b": random.normal(0, 5e4, (1, 3, 8)).astype(np.float32),
    }
    found = convert(model, "bfloat16", feeds=feeds, tolerance=6e-2, by="twin")
    assert found.is_narrow("Add")
    with pytest.raises(onnxcast.VerificationError, match=r"first diverging node: Add\(-> r\)"):
        onnxcast.optimize(model, fp32_cast="all-fp16", inputs=feeds, repair=False)


@both_formats
def test_an_op_of_another_domain_stays_wide_with_its_operands(dtype: str) -> None:
    rows = np.random.default_rng(0).normal(0, 1, (1, 3, 8)).astype(np.float32)
    rows[0, 0] = np.linspace(30000, 45000, 8)
    found = convert(
        parse(
            """g (float[1,3,8] a, float[1,3,8] b) => (float[1,3,4] y, float[1,3,8] r)
            <float[8] g, float[8,4] W> {
                [skip] o, , , r = com.microsoft.SkipSimplifiedLayerNormalization
                    <epsilon = 1e-6> (a, b, g)
                y = MatMul (o, W)
            }""",
            domains='"com.microsoft" : 1',
        ),
        dtype,
        feeds={"a": rows, "b": rows[..., ::-1].copy()},
        by="twin",
    )
    assert found.is_wide("skip")


@both_formats
def test_other_fused_ops_of_another_domain_are_valid_beside_narrow_ones(dtype: str) -> None:
    convert(
        parse(
            """g (float[2,3,4] a, float[2,4,3] b) => (float[2,3,2] y) <float[3,2] W> {
                r = Relu (a) [fused] m = com.microsoft.FusedMatMul <alpha = 0.5> (r, b)
                [gelu] e = com.microsoft.Gelu (m) y = MatMul (e, W)
            }""",
            domains='"com.microsoft" : 1',
        ),
        dtype,
        by="twin",
    )


@both_formats
def test_weights_beyond_the_range_of_an_eight_bit_float_are_no_matter_here(dtype: str) -> None:
    values = "449, 464, 465, 1000, -1000, 0.0015, 0.0007, 1"
    found = convert(
        f"g (float[3,8] x) => (float[3,8] y) <float[8] W = {{{values}}}> {{ y = Mul (x, W) }}",
        dtype,
    )
    assert found.is_narrow("Mul")
