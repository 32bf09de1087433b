"""Constants that several read, sparse and tiny ones; Casts that are litter and that are meaning."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.faults.conversions import Converted, both_formats, convert, floats, parse


def stored(found: Converted) -> dict[str, int]:
    """Bytes of each initializer of the main graph."""
    return {t.name: numpy_helper.to_array(t).nbytes for t in found.model.graph.initializer}


@both_formats
def test_a_constant_read_narrow_and_wide_is_right_for_both(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,5] y, float[2,5] best, int64[2,5] at, float[5] cs)
        <float[4,4] W, float[4] c, float[4,5] W2, float[5] c2, int64[1] k = {2}, int64 ax = {0}> {
            h = MatMul (x, W) a = Add (h, c) m = Max (a, c) best, at = TopK <axis = 0> (W2, k)
            z = MatMul (m, W2) y = Mul (z, c2) cs = CumSum (c2, ax)
        }""",
        dtype,
    )
    assert found.is_wide("TopK", "CumSum")
    assert found.is_narrow("MatMul", "Add", "Max", "Mul")


@both_formats
def test_a_constant_shared_with_a_kept_node_is_right_for_both(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,4] y) <float[4,4] W, float[4] b> {
            h = MatMul (x, W) [keep] a = Add (h, b) m = MatMul (a, W) y = Add (m, b)
        }""",
        dtype,
        keep_nodes=["keep"],
    )
    assert found.is_wide("keep")
    assert found.is_narrow("MatMul")
    assert len(stored(found)) <= 3


@both_formats
def test_a_constant_read_twice_by_one_node_is_stored_once(dtype: str) -> None:
    found = convert(
        "g (float[3,4] x) => (float[4,4] y) <float[4,4] W> { m = MatMul (W, W) y = Add (m, W) }",
        dtype,
    )
    assert stored(found) == {"W": 32}


@both_formats
def test_a_narrow_weight_of_the_source_is_read_as_it_is(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,2] y) <float16[4,5] W, float[5,2] V> {
            [widen] f = Cast <to = 1> (W) h = MatMul (x, f) e = Exp (h) y = MatMul (e, V)
        }""",
        dtype,
        tolerance=1e-2 if dtype == "float16" else 6e-2,
    )
    assert found.is_narrow("MatMul")
    assert found.is_wide("Exp")
    if dtype == "float16":
        assert "W" in found.named("MatMul")[0].proto.input


@both_formats
def test_a_model_that_is_narrow_already_only_gets_what_it_lacks(dtype: str) -> None:
    element = "bfloat16" if dtype == "bfloat16" else "float16"
    found = convert(
        f"""g ({element}[3,4] x) => ({element}[3,5] y) <{element}[4,5] W> {{
            h = MatMul (x, W) y = Relu (h)
        }}""",
        dtype,
        by="nothing",
    )
    assert [node.op_type for node in found.model.graph.node] == ["MatMul", "Relu"]


@pytest.mark.parametrize("there", ["float16", "bfloat16"])
@both_formats
def test_a_half_converted_model_is_finished(dtype: str, there: str) -> None:
    to = {"float16": 10, "bfloat16": 16}[there]
    found = convert(
        f"""g (float[3,4] x) => (float[3,2] y) <{there}[4,5] W, float[5,6] V, float[6,2] U> {{
            x16 = Cast <to = {to}> (x) h = MatMul (x16, W) h32 = Cast <to = 1> (h)
            m = MatMul (h32, V) s = Softmax (m) y = MatMul (s, U)
        }}""",
        dtype,
        tolerance=None if there == dtype == "float16" else 6e-2,
        by="nothing" if there == "bfloat16" else "reference",  # onnxruntime has no such kernel
    )
    assert found.is_narrow("Softmax")
    assert found.count("Cast") == (2 if there == dtype else 3)


@both_formats
def test_a_model_half_converted_by_another_tool_inside_a_branch_is_valid(dtype: str) -> None:
    convert(
        """g (float[3,4] x, bool c) => (float16[3,5] y) <float16[4,5] W, float[4,5] V> {
            x16 = Cast <to = 10> (x)
            y = If (c) <then_branch = t () => (float16[3,5] p) { p = MatMul (x16, W) },
                        else_branch = e () => (float16[3,5] q) {
                            m = MatMul (x, V) q = Cast <to = 10> (m) }>
        }""",
        dtype,
        feeds={"c": np.array(True)},
        more=[{"c": np.array(False)}],
        tolerance=5e-3 if dtype == "float16" else 5e-2,
    )


@both_formats
def test_a_sparse_weight_is_still_there_and_right(dtype: str) -> None:
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(floats([0.5, -1.25, 2.0, 0.1]), "Ws"),
        numpy_helper.from_array(np.array([1, 6, 11, 14], np.int64), "indices"),
        [4, 5],
    )
    model = parse(
        """g (float[3,4] x) => (float[3,2] y) <float[4,5] S, float[5,2] V> {
            h = MatMul (x, S) y = MatMul (h, V)
        }"""
    )
    model.graph.initializer.remove(next(t for t in model.graph.initializer if t.name == "S"))
    model.graph.node.insert(0, helper.make_node("Constant", [], ["S"], sparse_value=sparse))
    found = convert(model, dtype, by="twin")
    assert found.count("Constant") == 1
    assert found.is_narrow("MatMul")


@both_formats
def test_a_constant_that_is_cast_by_the_source_is_typed_right(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,5] y) <float[4,5] W> {
            d = Constant <value = double {0.3}> () k = Cast <to = 1> (d)
            h = MatMul (x, W) y = Mul (h, k)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul", "Mul")


@both_formats
def test_wide_nodes_that_fan_out_to_all_kinds_of_readers_are_cast_once(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,2] y, float[3,4] m1)
        <float[4,4] W, float[4,2] V, float c = {-1.0}, float d = {0.0}, float e = {1.0}> {
            h = MatMul (x, W) [k1] m1 = Max (h, c) [k2] m2 = Max (m1, d) m3 = Min (m1, e)
            p = MatMul (m1, V) s = Add (m2, m3) q = MatMul (s, V) y = Sub (p, q)
        }""",
        dtype,
        keep_nodes=["k1", "k2"],
        tolerance=1e-2 if dtype == "float16" else 8e-2,
    )
    assert found.is_wide("k1", "k2")
    assert found.count("Cast") == 5


SPLIT = """g (float[3,4] x) => (float[3,2] y, float[3,4] scaled)
    <float k = {{1024.0}}, float[4,2] W> {{
    [down] l = Cast <to = {to}> (x) [up] hi = Cast <to = 1> (l) [rest] lo = Sub (x, hi)
    scaled = Mul (lo, k) y = MatMul (hi, W)
}}"""


@pytest.mark.parametrize("to", [10, 16])
@both_formats
def test_a_rounding_of_the_source_is_meaning(dtype: str, to: int) -> None:
    found = convert(SPLIT.format(to=to), dtype)
    assert found.named("down")
    assert found.is_wide("rest")
    assert found.is_narrow("MatMul")


@both_formats
def test_a_rounding_of_the_source_between_narrow_ops_stays(dtype: str) -> None:
    """x is rounded to bfloat16 on purpose: neither a float16 nor a bfloat16 result may skip it."""
    found = convert(
        """g (float[3,4] x) => (float[3,4] y) {
            r = Relu (x) l = Cast <to = 16> (r) u = Cast <to = 1> (l) y = Abs (u)
        }""",
        dtype,
        tolerance=1e-6 if dtype == "float16" else 8e-3,
        feeds={"x": floats(np.arange(12).reshape(3, 4) * 1.03125 + 128)},
    )
    assert any("BFLOAT16" in node.gives for node in found.nodes), "the rounding is gone"


@both_formats
def test_a_saturating_pair_through_an_eight_bit_float_stays(dtype: str) -> None:
    found = convert(
        parse(
            """g (float[4] x) => (float[4] y) {
                [down] l = Cast <to = 17> (x) [up] u = Cast <to = 1> (l) y = Abs (u)
            }""",
            opset=19,
            ir_version=9,
        ),
        dtype,
        feeds={"x": floats([449, -1000, 0.3, 7e-4])},
        tolerance=1e-6 if dtype == "float16" else 1e-2,
    )
    assert found.named("down")


@both_formats
def test_integer_casts_that_wrap_stay(dtype: str) -> None:
    found = convert(
        """g (int32[3,4] i) => (int32[3,4] j, float[3,2] y) <float s = {0.00390625}, float[4,2] W> {
            [wrap] u = Cast <to = 2> (i) [back] j = Cast <to = 6> (u) f = Cast <to = 1> (j)
            m = Mul (f, s) y = MatMul (m, W)
        }""",
        dtype,
        feeds={"i": np.arange(12, dtype=np.int32).reshape(3, 4) * 40 - 200},
    )
    assert found.named("wrap")
    assert found.named("back")


@both_formats
def test_a_cast_to_text_and_back_stays(dtype: str) -> None:
    found = convert(
        """g (float[3] x) => (float[3] y) { r = Relu (x) s = Cast <to = 8> (r)
        t = Cast <to = 1> (s) y = Abs (t) }""",
        dtype,
        by="nothing",
    )
    assert found.count("Cast") >= 2


@both_formats
def test_tiny_weights_keep_their_sign_and_never_grow(dtype: str) -> None:
    """-3e-9 is below float16's least number: it may become 0, never +6e-8 or -6e-8."""
    values = floats([2e4, 6e4, -6e4, 3e-8, -3e-9, -0.0, 0.0, 1e-7])
    model = parse("g (float[2,8] x) => (float[2,8] y) <float[8] W> { y = Mul (x, W) }")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "W"))
    found = convert(model, dtype, by="twin")
    [tensor] = found.model.graph.initializer
    kind = {1: np.float32, 10: np.float16, 16: ml_dtypes.bfloat16}[tensor.data_type]
    array = np.asarray(numpy_helper.to_array(tensor))
    array = array.view(kind) if array.dtype.itemsize == np.dtype(kind).itemsize else array
    assert np.array_equal(array, values.astype(kind))
    assert np.array_equal(np.signbit(array), np.signbit(values))


@both_formats
def test_infinities_and_nan_in_weights_stay_what_they_are(dtype: str) -> None:
    values = floats([2e4, 7e4, -7e4, np.inf, -np.inf, np.nan, 3e-8, 1])
    model = parse("g (float[2,8] x) => (float[2,8] y) <float[8] W> { y = Mul (x, W) }")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "W"))
    found = convert(model, dtype, by="twin")
    if dtype == "float16":
        assert found.is_wide("Mul")
    else:
        assert found.is_narrow("Mul")


@both_formats
def test_a_constant_node_of_weights_is_narrowed_like_an_initializer(dtype: str) -> None:
    values = numpy_helper.from_array(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5), "v")
    model = parse("g (float[3,4] x) => (float[3,5] y) <float[4,5] W> { y = MatMul (x, W) }")
    del model.graph.initializer[:]
    model.graph.node.insert(0, helper.make_node("Constant", [], ["W"], value=values))
    found = convert(model, dtype)
    [constant] = found.named("Constant")
    assert constant.proto.attribute[0].t.data_type != onnx.TensorProto.FLOAT


@both_formats
def test_an_empty_tensor_and_an_empty_weight_are_valid(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,4] y) <float[0,4] none = {}, float[4,4] W> {
            c = Concat <axis = 0> (x, none) y = MatMul (c, W)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul")
