"""The twin rounds where a device with narrow results would, in a model that any CPU runs."""

import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from onnxcast import formats
from onnxcast.formats import BFLOAT16, FLOAT16, Format
from onnxcast.verification.twin import build_twin, has_narrow_values

Array = npt.NDArray[Any]
HEADER = '<ir_version: 10, opset_import: ["": 21, "local": 1]>'
TYPES: Mapping[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
FORMATS = pytest.mark.parametrize("narrow", [FLOAT16, BFLOAT16], ids=str)


def parsed(text: str) -> onnx.ModelProto:
    """A model; onnx's syntax takes the bits of a narrow number where `text` has the number."""

    def spell_bits(match: re.Match[str]) -> str:
        numbers = np.array([float(number) for number in match[3].split(",")])
        bits = numbers.astype(TYPES[match[1]]).view(np.uint16).tolist()
        return f"{match[1]}{match[2]}{{{', '.join(map(str, bits))}}}"

    narrow = r"\b(b?float16)(\[[\d,]+\](?: \w+ =)? ?)\{([^}]*)\}"
    return onnx.parser.parse_model(HEADER + re.sub(narrow, spell_bits, text))


def load(text: str) -> ir.Model:
    return ir.from_proto(parsed(text))


def session(model: ir.Model) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    proto = ir.to_proto(model)
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def run(model: ir.Model, feeds: Mapping[str, object]) -> list[Array]:
    return list(session(model).run(None, dict(feeds)))


def twin_of(text: str) -> ir.Model:
    """The twin, valid by onnx's full check."""
    twin = build_twin(load(text)).model
    onnx.checker.check_model(ir.to_proto(twin), full_check=True)
    return twin


def ops(graph: ir.Graph) -> list[str]:
    return [node.op_type for node in graph]


def uniform(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0.25, 2, shape).astype(np.float32)


def test_an_overflow_between_two_ops_shows_in_the_twin_only() -> None:
    text = """g (float16[1] x) => (float16[1] y)
    <float16[1] big = {1000}, float16[1] small = {0.001}> { h = Mul (x, big) y = Mul (h, small) }"""
    [as_is] = run(load(text), {"x": np.array([1000], np.float16)})
    assert as_is.tolist() == [1000.5]
    [twin] = run(twin_of(text), {"x": np.array([1000], np.float32)})
    assert twin.tolist() == [np.inf]


def test_a_bfloat16_model_that_onnxruntime_cannot_load_runs_as_its_twin() -> None:
    text = "g (bfloat16[3,4] x, bfloat16[4,2] w) => (bfloat16[3,2] y) { y = MatMul (x, w) }"
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.NotImplemented):
        session(load(text))
    x, w = uniform(3, 4), uniform(4, 2, seed=1)
    [found] = run(twin_of(text), {"x": x, "w": w})
    low = [v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (x, w)]
    wanted = (low[0] @ low[1]).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


SINGLE = [
    "Add (x, w)",
    "Mul (x, w)",
    "Div (x, w)",
    "MatMul (x, w)",
    "Sqrt (x)",
    "Exp (x)",
    "Sigmoid (x)",
    "Relu (x)",
    "Softmax (x)",
    "ReduceSum (x)",
    "ReduceMean <keepdims = 1> (x)",
    "Transpose (x)",
    "Concat <axis = 0> (x, w)",
    "Max (x, w)",
    "Identity (x)",
    "Pad (x, p)",
    "LayerNormalization (x, s)",
    "CumSum (x, k)",
]


@FORMATS
@pytest.mark.parametrize("node", SINGLE)
def test_a_single_op_is_rounded_once_at_its_end(node: str, narrow: Format) -> None:
    constants = "<int64[4] p = {1, 0, 0, 1}, int64 k = {0}, TYPE[4] s = {0.3, 0.7, 1, 1}>"
    graph = f"g (TYPE[4,4] x, TYPE[4,4] w) => (TYPE[N,M] y) {constants} {{ y = {node} }}"
    x, w = uniform(4, 4), uniform(4, 4, seed=1)
    [found] = run(twin_of(graph.replace("TYPE", narrow.name)), {"x": x, "w": w})
    low = {"x": formats.round_to(x, narrow), "w": formats.round_to(w, narrow)}
    wide = load(graph.replace("TYPE", "float"))
    scale = wide.graph.initializers["s"]
    assert scale.const_value is not None
    scale.const_value = ir.tensor(formats.round_to(scale.const_value.numpy(), narrow))
    [result] = run(wide, low)
    np.testing.assert_array_equal(found, formats.round_to(result, narrow))


@FORMATS
def test_a_chain_equals_onnxs_reference_in_true_narrow_arithmetic(narrow: Format) -> None:
    text = """g (float16[4,4] x, float16[4,4] w) => (float16[4,4] y)
    <float16[4] b = {0.1, 0.2, 0.3, 0.4}> {
        h = Mul (x, w) a = Add (h, b) r = Relu (a) t = Transpose (r)
        d = Div (t, w) m = Max (d, b) n = Neg (m) y = Sub (n, b)
    }""".replace("float16", narrow.name)
    assert narrow.dtype is not None
    storage = narrow.dtype.numpy()
    x, w = uniform(4, 4), uniform(4, 4, seed=1)
    proto = parsed(text)
    feeds = {"x": x.astype(storage), "w": w.astype(storage)}
    [wanted] = ReferenceEvaluator(proto).run(None, feeds)
    [found] = run(twin_of(text), {"x": x, "w": w})
    # Element-wise narrow arithmetic rounds once per op: the same bits.
    np.testing.assert_array_equal(found, np.asarray(wanted).astype(np.float32))


@pytest.mark.parametrize(
    "body",
    [
        "h = MatMul (x, w) y = Softmax (h)",
        "h = Exp (x) s = ReduceSum (h) y = Div (h, s)",
        "h = Tanh (x) a = MatMul (h, w) b = Sigmoid (a) y = Mul (a, b)",
    ],
)
def test_sums_are_near_onnxs_reference_in_true_narrow_arithmetic(body: str) -> None:
    text = f"g (float16[4,4] x, float16[4,4] w) => (float16[4,4] y) {{ {body} }}"
    x, w = uniform(4, 4), uniform(4, 4, seed=1)
    proto = parsed(text)
    feeds = {"x": x.astype(np.float16), "w": w.astype(np.float16)}
    [wanted] = ReferenceEvaluator(proto).run(None, feeds)
    [found] = run(twin_of(text), {"x": x, "w": w})
    # The reference accumulates in float16 too: a few units in the last place, 2**-11 each.
    np.testing.assert_allclose(found, np.asarray(wanted, np.float32), rtol=8 * 2.0**-11, atol=0)


def test_narrow_inputs_and_outputs_become_float32_and_are_rounded() -> None:
    twin = twin_of("g (float16[1] x) => (float16[1] x) { }")
    assert [v.dtype for v in (*twin.graph.inputs, *twin.graph.outputs)] == [ir.DataType.FLOAT] * 2
    [found] = run(twin, {"x": np.array([1.0004], np.float32)})
    assert found.tolist() == [1.0]


def test_names_of_the_source_are_those_of_the_rounded_values() -> None:
    text = """g (float16[1] x) => (float16[1] y) {
        h = Exp (x) c = Cast <to = 1> (h) d = Cast <to = 10> (c) y = Sqrt (d)
    }"""
    twin = twin_of(text)
    for name in ("h", "c", "d", "y"):
        [value] = [v for node in twin.graph for v in node.outputs if v.name == name]
        twin.graph.outputs.append(value)
        value.type = ir.TensorType(ir.DataType.FLOAT)
    results = run(twin, {"x": np.array([0.3333333], np.float32)})
    for result in results:
        np.testing.assert_array_equal(result, formats.round_to(result, FLOAT16))


def test_a_float32_model_is_its_own_twin() -> None:
    model = load(
        """g (float[2] x) => (float[2] y, double[2] z) {
            h = Exp (x) y = Sqrt (h) z = Cast <to = 11> (h)
        }"""
    )
    built = build_twin(model)
    assert (built.rounded, built.assumed) == (0, {})
    assert ir.to_proto(built.model) == ir.to_proto(model)
    assert not has_narrow_values(model)


def test_the_source_stays_as_it_is() -> None:
    model = load("g (float16[2] x) => (float16[2] y) { h = Exp (x) y = Sqrt (h) }")
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    assert build_twin(model).rounded == 3
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_carriers_and_constants_get_no_pair() -> None:
    text = """g (float[2,2] x) => (float16[4,2] y) <float16[2,2] w = {0.1, 1, 2, 3}> {
        n = Cast <to = 10> (x)
        k = Constant <value = float16[1] {0.1}> ()
        t = Transpose (n) c = Concat <axis = 0> (t, w) i = Identity (c)
        s = Constant <value_ints = [4, 2]> () r = Reshape (i, s)
        y = Add (r, k)
    }"""
    built = build_twin(load(text))
    assert built.rounded == 2
    assert ops(built.model.graph).count("Cast") == 4
    x = uniform(2, 2)
    [found] = run(twin_of(text), {"x": x})
    w = np.array([[0.1, 1], [2, 3]], np.float16)
    wanted = np.concatenate([x.astype(np.float16).T, w]) + np.float16(0.1)
    np.testing.assert_array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize(
    "node",
    [
        "ConstantOfShape <value = float16[1] {0.1}> (n)",
        "EyeLike <dtype = 10> (m)",
        "RandomUniform <dtype = 10, shape = [2, 2], seed = 1.0> ()",
        "RandomNormalLike <dtype = 10, seed = 1.0> (m)",
        "Constant <value = float16[2,2] {0.1, 1, 2, 3}> ()",
        "CastLike (m, h)",
        "Cast <to = 10> (m)",
    ],
)
def test_types_named_by_attributes_become_float32_with_rounded_values(node: str) -> None:
    text = f"""g (int64[2] n, float[2,2] m, float16[1] h) => (float16[2,2] y, float16[1] z) {{
        y = {node} z = Abs (h)
    }}"""
    m = np.full((2, 2), 0.1, np.float32)
    feeds = {"n": np.array([2, 2], np.int64), "m": m, "h": np.ones(1, np.float32)}
    found, _ = run(twin_of(text), feeds)
    assert found.dtype == np.float32
    assert found.any()
    np.testing.assert_array_equal(found, formats.round_to(found, FLOAT16))


def test_a_cast_from_an_integer_is_rounded() -> None:

    text = "g (int64[1] x) => (bfloat16[1] y) { y = Cast <to = 16> (x) }"
    [found] = run(twin_of(text), {"x": np.array([257], np.int64)})
    assert found.tolist() == [256.0]


def test_casts_between_narrow_formats_round_to_each() -> None:
    text = "g (float16[2] x) => (bfloat16[2] y) { y = Cast <to = 16> (x) }"
    x = np.array([1.00390625 + 2**-10, 1 / 3], np.float32)
    [found] = run(twin_of(text), {"x": x})
    wanted = formats.round_to(formats.round_to(x, FLOAT16), BFLOAT16)
    np.testing.assert_array_equal(found, wanted)


def test_subgraphs_round_inside_and_at_their_captured_values() -> None:
    text = """g (float16[1] x, bool c) => (float16[1] y) <float16[1] w = {1000}> {
        h = Mul (x, w)
        y = If (c) <
            then_branch = then () => (float16[1] t) { s = Mul (h, w) t = Div (s, w) },
            else_branch = other () => (float16[1] e) { e = Identity (h) }
        >
    }"""
    twin = twin_of(text)
    x = np.array([1.0001], np.float32)
    assert run(twin, {"x": x, "c": np.array(True)})[0].tolist() == [np.inf]
    assert run(twin, {"x": x, "c": np.array(False)})[0].tolist() == [1000.0]


def test_a_loops_state_is_rounded_each_time_round() -> None:
    text = """g (float16[1] x, int64 n) => (float16[1] y) <bool go = {1}, float16[1] d = {1}> {
        y = Loop <body = body (int64 i, bool c, float16[1] a) => (bool c2, float16[1] b) {
            c2 = Identity (c) b = Add (a, d)
        }> (n, go, x)
    }"""
    # From 2048 on, adding 1 to a float16 gives 2048 again.
    feeds = {"x": np.array([2040], np.float32), "n": np.array(100, np.int64)}
    assert run(twin_of(text), feeds)[0].tolist() == [2048.0]


def test_functions_round_inside() -> None:
    text = """g (float[1] x) => (float[1] y) { y = local.Square <to = 10> (x) }
    <opset_import: ["": 21], domain: "local">
    Square <to> (a) => (b) { l = Cast <to: int = @to> (a) s = Mul (l, l) b = Cast <to = 1> (s) }"""
    assert has_narrow_values(load(text))
    assert run(twin_of(text), {"x": np.array([1000], np.float32)})[0].tolist() == [np.inf]


def test_sequences_of_narrow_tensors_become_sequences_of_float32() -> None:
    text = """g (float16[2] x, seq(float16[2]) q, int64 k) => (float16[2] y, seq(float16[2]) z) {
        d = Mul (x, x)
        s = SequenceConstruct (x, d)
        e = SequenceAt (s, k)
        f = SequenceAt (q, k)
        y = Add (e, f)
        z = SequenceInsert (s, f)
    }"""
    x = np.array([300, 1.0004], np.float32)
    feeds = {"x": x, "q": [np.ones(2, np.float32), x], "k": np.array(1, np.int64)}
    y, z = run(twin_of(text), feeds)
    assert y[0] == np.inf
    assert y[1] == 2.0
    assert len(z) == 3


def test_an_optional_result_that_is_left_out_stays_out() -> None:
    text = """g (float16[2,2] x, float16[2] s) => (float16[2,2] y, float d) {
        y, , d = LayerNormalization (x, s)
    }"""
    twin = build_twin(load(text)).model
    [node] = [node for node in twin.graph if node.op_type == "LayerNormalization"]
    assert node.outputs[1].name == ""


def test_ops_of_many_steps_are_named_with_their_number() -> None:
    text = """g (float16[2,2] x) => (float16[2,2] y) {
        h = Softmax (x) i = Softmax (h) y = Add (i, x)
    }"""
    assert build_twin(load(text)).assumed == {"Softmax": 2}


def test_wide_statistics_of_a_narrow_op_are_not_rounded() -> None:
    text = """g (float16[1,3] x, float16[3] s) => (float16[1,3] y, float[1,1] m) {
        y, m = LayerNormalization <stash_type = 1> (x, s)
    }"""
    x = np.array([[0.25, 0.5, 1.0]], np.float32)
    _, mean = run(twin_of(text), {"x": x, "s": np.ones(3, np.float32)})
    np.testing.assert_allclose(mean, [[1.75 / 3]], rtol=1e-6)
