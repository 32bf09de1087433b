"""What an op takes changes from opset to opset, and from format to format."""

import numpy as np
import onnx
import pytest

import onnxcast
from tests.faults.conversions import both_formats, convert, parse

QDQ = """g (float[3,4] x) => (float[3,5] y)
<float sx = {0.02}, int8 zx = {0}, int8[4,5] Wq, float[5] sw = {0.01, 0.02, 0.01, 0.03, 0.01},
 int8[5] zw = {0, 0, 0, 0, 0}, float[5] b> {
    [q] q = QuantizeLinear (x, sx, zx) [d] d = DequantizeLinear (q, sx, zx)
    [w] w = DequantizeLinear <axis = 1> (Wq, sw, zw) m = MatMul (d, w) [add] y = Add (m, b)
}"""


@pytest.mark.parametrize("opset", [13, 17, 18, 19, 21])
@both_formats
def test_quantisers_keep_their_float32_scales(dtype: str, opset: int) -> None:
    tolerance = 1e-2 if dtype == "float16" else 5e-2
    found = convert(parse(QDQ, opset=opset), dtype, tolerance=tolerance, by="twin")
    assert found.is_wide("q", "d", "w")
    assert found.is_narrow("add")
    kept = {tensor.name: tensor.data_type for tensor in found.model.graph.initializer}
    assert (kept["Wq"], kept["sx"], kept["sw"]) == (3, 1, 1)


@both_formats
def test_a_dynamically_quantised_product_keeps_its_scales(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,5] y) <uint8[4,5] Wq, uint8 wz = {2}, float ws = {0.01}> {
            q, s, z = DynamicQuantizeLinear (x) m = MatMulInteger (q, Wq, z, wz)
            f = Cast <to = 1> (m) k = Mul (s, ws) p = Mul (f, k) y = Relu (p)
        }""",
        dtype,
    )
    assert found.is_wide("DynamicQuantizeLinear", "MatMulInteger")


@pytest.mark.parametrize("opset", [11, 12, 13])
@both_formats
def test_bounds_beyond_the_range_limit_as_before(dtype: str, opset: int) -> None:
    convert(
        parse(
            """g (float[3,4] x) => (float[3,5] y, float[3,5] z)
            <float[4,5] W, float low = {-3.4028234e38}, float high = {6.0}, float k = {-2.0},
             float[5] k5 = {-3.0, -3.0, -3.0, -3.0, -3.0}, float big = {3.4028234e38}> {
                h = MatMul (x, W) c = Clip (h, low, high) m = Max (c, k, k5)
                n = Min (m, high, big) y = Clip (n, , high) z = Clip (h, low, )
            }""",
            opset=opset,
        ),
        dtype,
    )


@pytest.mark.parametrize("opset", [7, 10])
@both_formats
def test_bounds_that_are_attributes_limit_as_before(dtype: str, opset: int) -> None:
    convert(
        parse(
            """g (float[3,4] x) => (float[3,5] y, float[3,5] z) <float[4,5] W> {
                h = MatMul (x, W) y = Clip <max = 0.5> (h) z = Clip <min = -0.25> (h)
            }""",
            opset=opset,
            ir_version=4,
        ),
        dtype,
    )


@both_formats
def test_ops_without_bfloat16_stay_wide_in_it_alone(dtype: str) -> None:
    found = convert(
        parse(
            """g (float[3,4] x) => (float[3,2] y)
            <float[4,5] W, float c = {0.513}, float d = {0.71}, float[5,2] V> {
                h = MatMul (x, W) s = HardSigmoid (h) ge = GreaterOrEqual (s, c)
                le = LessOrEqual (h, d) b = And (ge, le) w = Where (b, h, s) p = Softplus (w)
                y = MatMul (p, V)
            }""",
            opset=15,
        ),
        dtype,
        feeds={"x": np.arange(12, dtype=np.float32).reshape(3, 4) / 8},
        by="twin",
    )
    assert found.is_wide("GreaterOrEqual", "LessOrEqual") or dtype == "float16"
    assert found.is_narrow("MatMul")
    if dtype == "bfloat16":
        assert found.is_wide("HardSigmoid", "Softplus")
    else:
        assert found.is_narrow("HardSigmoid", "Softplus")


@pytest.mark.parametrize(
    ("op", "opset"),
    [
        ("MeanVarianceNormalization <axes = [0, 2, 3]>", 13),
        ("Celu <alpha = 0.5>", 12),
    ],
)
@both_formats
def test_ops_whose_bodies_hold_floats_stay_wide(dtype: str, op: str, opset: int) -> None:
    found = convert(
        parse(
            f"""g (float[2,2,4,4] x) => (float[2,3,4,4] y) <float[3,2,1,1] W> {{
                c = Conv (x, W) [body] m = {op} (c) r = Relu (m) y = Neg (r)
            }}""",
            opset=opset,
        ),
        dtype,
        tolerance=1e-2 if dtype == "float16" else 8e-2,
        by="twin",
    )
    assert found.is_wide("body")
    assert found.is_narrow("Relu")


@both_formats
def test_an_op_that_the_checker_takes_at_its_old_opset_only_is_no_hindrance(dtype: str) -> None:
    """onnx's inference misses the default axes of MeanVarianceNormalization from 13 on."""
    model = parse(
        """g (float[2,2,4,4] x) => (float[2,2,4,4] y) {
            r = Relu (x) m = MeanVarianceNormalization (r) y = Abs (m)
        }""",
        opset=9,
    )
    result = onnxcast.optimize(model, scope="all", dtype=dtype, verify=False)
    onnx.checker.check_model(result.to_proto())
    assert result.modified


OLD = """g (float[3,4] x) => (float[3,5] y, float[3,5] sq) <float[4,5] W> {
    h = MatMul (x, W) un = Unsqueeze <axes = [1]> (h)
    rs = ReduceSum <axes = [1], keepdims = 0> (un) cl = Clip <max = 0.5> (rs)
    y = Softmax <axis = 1> (cl) sq = Squeeze <axes = [1]> (un)
}"""


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12])
@both_formats
def test_old_opsets_stay_for_float16_and_are_raised_for_bfloat16(dtype: str, opset: int) -> None:
    text = OLD if opset < 11 else OLD.replace("<max = 0.5> (rs)", "(rs)")
    found = convert(parse(text, opset=opset, ir_version=4), dtype)
    assert found.model.opset_import[0].version == (opset if dtype == "float16" else 13)
    assert found.is_narrow("MatMul")


def test_bfloat16_at_an_old_opset_that_is_to_be_kept_is_refused_in_one_line() -> None:
    with pytest.raises(onnxcast.RefusedError) as caught:
        onnxcast.optimize(parse(OLD, opset=9), fp32_cast="all", verify=False, opset="keep")
    assert "opset 13" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 13, 19])
@both_formats
def test_the_scales_of_a_resize_are_no_data(dtype: str, opset: int) -> None:
    nodes = {
        7: "Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (r)",
        9: "Upsample (r, s)",
        10: "Resize (r, s)",
        11: "Resize (r, roi, s)",
    }
    found = convert(
        parse(
            f"""g (float[1,2,3,3] x) => (float[1,2,6,6] y)
            <float[4] s = {{1.0, 1.0, 2.0, 2.0}}, float k = {{1.5}}, float[0] roi = {{}}> {{
                r = Relu (x) u = {nodes.get(opset, "Resize (r, , s)")} y = Mul (u, k)
            }}""",
            opset=opset,
            ir_version=4,
        ),
        dtype,
        by="twin",
    )
    assert found.is_narrow("Mul")
    for tensor in found.model.graph.initializer:
        assert tensor.name != "s" or tensor.data_type == 1


@pytest.mark.parametrize("opset", [8, 12, 13])
@both_formats
def test_an_old_scan_or_loop_is_valid(dtype: str, opset: int) -> None:
    found = convert(
        parse(
            """g (float[2,3] s) => (float[2,3] last) <float[3,3] U, int64 n = {3}, bool go = {1}> {
                last = Loop (n, go, s) <body = step (int64 i, bool on, float[2,3] v)
                    => (bool on2, float[2,3] w) {
                    on2 = Identity (on) m = MatMul (v, U) w = Tanh (m)
                }>
            }""",
            opset=opset,
            ir_version=4,
        ),
        dtype,
        tolerance=1e-2 if dtype == "float16" else 8e-2,
        by="twin",
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_legality_is_that_of_each_operand_not_of_any(dtype: str) -> None:
    """Attention-like sets of type variables, each with a list of its own."""
    found = convert(
        parse(
            """g (float[2,3,8] x, float[2,3,8] k) => (float[2,3,8] y) <float[8] g, float[8] b> {
                n, mean, inv = LayerNormalization (x, g, b) a = Add (n, k) y = Relu (a)
            }"""
        ),
        dtype,
    )
    assert found.is_narrow("Add", "Relu")
    assert found.named("LayerNormalization")[0].gives[1:] == ["FLOAT", "FLOAT"]


@both_formats
def test_a_group_norm_and_its_scales_agree(dtype: str) -> None:
    found = convert(
        parse(
            """g (float[2,4,3,3] x) => (float[2,4,3,3] y) <float[4] g, float[4] b> {
                h = Relu (x) n = GroupNormalization <num_groups = 2> (h, g, b) y = Abs (n)
            }""",
            opset=21,
        ),
        dtype,
        by="twin",
        tolerance=2e-2 if dtype == "float16" else 8e-2,
    )
    assert found.is_narrow("Relu", "Abs")
