"""What is marked to have a format without an ONNX type is rounded in the twin."""

import pathlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest

import onnxcast
from onnxcast import formats
from onnxcast.formats import FLOAT16, float32r
from onnxcast.graph.walk import model_graphs
from onnxcast.planning import is_marked, marked_format, marked_operands
from onnxcast.verification.twin import build_twin, has_narrow_values, narrowest_format

Array = npt.NDArray[Any]
Marks = Mapping[str, str]

HEADER = '<ir_version: 10, opset_import: ["": {opset}, "local": 1]>'
NONE: Marks = types.MappingProxyType({})
ROUNDING = "onnxcast.rounding"
F32R = float32r()


def parsed(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER.format(opset=opset) + text)


def load(text: str, *, reads: Marks = NONE, gives: Marks = NONE, opset: int = 21) -> ir.Model:
    """A model with marks on nodes, by their first result, and on results."""
    model = ir.from_proto(parsed(text, opset))
    marked = 0
    for graph in model_graphs(model):
        for node in graph:
            first = node.outputs[0].name or ""
            if first in reads:
                node.metadata_props["onnxcast.operands"] = reads[first]
                marked += 1
            for value in node.outputs:
                name = value.name or ""
                if name in gives:
                    value.metadata_props["onnxcast.format"] = gives[name]
                    marked += 1
    assert marked == len(reads) + len(gives)
    return model


def run(model: ir.Model | onnx.ModelProto, feeds: Mapping[str, object]) -> list[Array]:
    proto = ir.to_proto(model) if isinstance(model, ir.Model) else model
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, dict(feeds))]


def twin_of(model: ir.Model) -> tuple[ir.Model, int]:
    """The twin, valid and without marks, and how many values it rounds."""
    built = build_twin(model)
    onnx.checker.check_model(ir.to_proto(built.model), full_check=True)
    assert not is_marked(built.model)
    return built.model, built.rounded


def roundings(model: ir.Model) -> list[str]:
    """What is rounded, graph by graph."""
    return [
        node.inputs[0].name or ""
        for graph in model_graphs(model)
        for node in graph
        if node.domain == ROUNDING and node.inputs[0] is not None
    ]


def uniform(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0.25, 2, shape).astype(np.float32)


def low(values: Array, bits: int = 11) -> Array:
    return formats.round_to(values, float32r(bits))


def sigmoid_of(values: Array) -> Array:
    shape = ",".join(map(str, values.shape))
    [found] = run(
        parsed(f"g (float[{shape}] x) => (float[{shape}] h) {{ h = Sigmoid (x) }}"), {"x": values}
    )
    return found


X, W = uniform(3, 4), uniform(4, 2, seed=1)
PRODUCT = "g (float[3,4] x, float[4,2] w) => (float[3,2] y) { y = MatMul (x, w) }"


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_marked_operands_are_rounded_and_the_result_is_not(opset: int) -> None:
    model = load(PRODUCT, reads={"y": "0:float32r 1:float32r"}, opset=opset)
    twin, rounded = twin_of(model)
    assert rounded == 2
    [found] = run(twin, {"x": X, "w": W})
    [wanted] = run(load(PRODUCT, opset=opset), {"x": low(X), "w": low(W)})
    np.testing.assert_array_equal(found, wanted)
    assert (found != low(found)).any()


def test_each_operand_has_its_own_mark() -> None:
    twin, rounded = twin_of(load(PRODUCT, reads={"y": "1:float32r7"}))
    assert rounded == 1
    [found] = run(twin, {"x": X, "w": W})
    [wanted] = run(load(PRODUCT), {"x": X, "w": low(W, 7)})
    np.testing.assert_array_equal(found, wanted)


def test_a_marked_result_is_rounded_for_all_that_read_it() -> None:
    text = """g (float[3,4] x) => (float[3,4] y, float[3,4] z) {
        h = Sigmoid (x) y = Neg (h) z = Add (h, x) }"""
    twin, rounded = twin_of(load(text, gives={"h": "float32r"}))
    assert rounded == 1
    y, z = run(twin, {"x": X})
    sigmoid = sigmoid_of(X)
    np.testing.assert_array_equal(y, -low(sigmoid))
    np.testing.assert_array_equal(z, low(sigmoid) + X)


def test_a_marked_graph_output_keeps_its_name() -> None:
    text = "g (float[3,4] x) => (float[3,4] h, float[3,4] y) { h = Sigmoid (x) y = Neg (h) }"
    twin, rounded = twin_of(load(text, gives={"h": "float32r", "y": "float32r"}))
    assert rounded == 2
    assert [value.name for value in twin.graph.outputs] == ["h", "y"]
    h, y = run(twin, {"x": X})
    np.testing.assert_array_equal(h, low(h))
    np.testing.assert_array_equal(y, -h)


def test_an_operand_that_several_nodes_read_is_rounded_once() -> None:
    text = """g (float[4,4] x) => (float[4,4] y, float[4,4] z) {
        y = MatMul (x, x) z = MatMul (y, x) }"""
    both = "0:float32r 1:float32r"
    twin, rounded = twin_of(load(text, reads={"y": both, "z": both}))
    assert rounded == 2
    assert roundings(twin) == ["x", "y"]


def test_two_formats_of_one_operand_are_two_roundings() -> None:
    text = """g (float[4,4] x) => (float[4,4] y, float[4,4] z) {
        y = MatMul (x, x) z = Mul (x, x) }"""
    twin, rounded = twin_of(load(text, reads={"y": "0:float32r", "z": "0:float32r7"}))
    assert rounded == 2
    x = uniform(4, 4)
    y, z = run(twin, {"x": x})
    np.testing.assert_array_equal(z, low(x, 7) * x)
    product = "g (float[4,4] t, float[4,4] w) => (float[4,4] y) { y = MatMul (t, w) }"
    [wanted] = run(parsed(product), {"t": low(x), "w": x})
    np.testing.assert_array_equal(y, wanted)


def test_an_operand_whose_result_was_rounded_is_not_rounded_again() -> None:
    text = """g (float[4,4] x, float[4,4] w) => (float[4,4] y) {
        h = Sigmoid (x) t = Transpose (h) y = MatMul (t, w) }"""
    model = load(
        text,
        reads={"t": "0:float32r", "y": "0:float32r 1:float32r"},
        gives={"h": "float32r", "t": "float32r"},
    )
    twin, rounded = twin_of(model)
    assert rounded == 2
    assert len(roundings(twin)) == 2
    x, w = uniform(4, 4), uniform(4, 4, seed=1)
    [found] = run(twin, {"x": x, "w": w})
    h = sigmoid_of(x)
    product = "g (float[4,4] t, float[4,4] w) => (float[4,4] y) { y = MatMul (t, w) }"
    feeds = {"t": np.ascontiguousarray(low(h).T), "w": low(w)}
    np.testing.assert_array_equal(found, run(parsed(product), feeds)[0])


BRANCHES = """g (float[4] x, bool c) => (float[4] y) {
    y = If (c) <
        then_branch = one () => (float[4] t) { a = Sigmoid (x) t = Mul (a, x) },
        else_branch = two () => (float[4] e) { b = Mul (x, x) e = Add (b, x) }
    >
}"""


def test_branches_round_inside() -> None:
    model = load(
        BRANCHES,
        reads={"t": "1:float32r7", "b": "0:float32r7 1:float32r7", "e": "1:float32r7"},
        gives={"a": "float32r7", "t": "float32r7"},
    )
    twin, rounded = twin_of(model)
    # One copy of x in each branch, and two results.
    assert rounded == 4
    x = uniform(4)
    [then] = run(twin, {"x": x, "c": np.array(True)})
    sigmoid = sigmoid_of(x)
    np.testing.assert_array_equal(then, low(low(sigmoid, 7) * low(x, 7), 7))
    [other] = run(twin, {"x": x, "c": np.array(False)})
    np.testing.assert_array_equal(other, low(x, 7) * low(x, 7) + low(x, 7))


def test_functions_round_inside() -> None:
    text = """g (float[4] x) => (float[4] y) { y = local.Square (x) }
    <opset_import: ["": 21], domain: "local">
    Square (a) => (b) { s = Sigmoid (a) b = Mul (s, a) }"""
    model = load(text, reads={"b": "1:float32r7"}, gives={"s": "float32r7"})
    assert has_narrow_values(model)
    assert narrowest_format(model) == float32r(7)
    twin, rounded = twin_of(model)
    assert rounded == 2
    x = uniform(4)
    sigmoid = sigmoid_of(x)
    [found] = run(twin, {"x": x})
    np.testing.assert_array_equal(found, low(sigmoid, 7) * low(x, 7))


def test_marks_and_narrow_types_round_side_by_side() -> None:
    text = """g (float[4] x) => (float[4] y) {
        n = Cast <to = 10> (x) h = Mul (n, n) f = Cast <to = 1> (h) y = Mul (f, x) }"""
    model = load(text, reads={"y": "1:float32r7"}, gives={"y": "float32r7"})
    assert narrowest_format(model) == float32r(7)
    twin, rounded = twin_of(model)
    assert rounded == 4
    x = uniform(4)
    half = formats.round_to(x, FLOAT16)
    square = formats.round_to(half * half, FLOAT16)
    np.testing.assert_array_equal(run(twin, {"x": x})[0], low(square * low(x, 7), 7))


def test_marks_alone_make_a_model_narrow() -> None:
    plain = load(PRODUCT)
    assert not has_narrow_values(plain)
    assert narrowest_format(plain) == formats.FLOAT32
    for model in (
        load(PRODUCT, reads={"y": "0:float32r"}),
        load(PRODUCT, gives={"y": "float32r"}),
    ):
        assert has_narrow_values(model)
        assert narrowest_format(model) == F32R


def test_the_marked_model_stays_as_it_is() -> None:
    model = load(PRODUCT, reads={"y": "0:float32r"}, gives={"y": "float32r"})
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    build_twin(model)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_marks_survive_a_file(tmp_path: pathlib.Path) -> None:
    model = load(PRODUCT, reads={"y": "1:float32r7"}, gives={"y": "float32r7"})
    path = tmp_path / "marked.onnx"
    ir.save(model, path)
    [node] = ir.load(path).graph
    assert marked_operands(node) == {1: float32r(7)}
    assert marked_format(node.outputs[0]) == float32r(7)


LINEAR = """g (float[3,4] x) => (float[3,4] y)
<float[4,4] w = {1, 0.3, 0.7, 0.1, -0.2, 1.1, 0.9, 0.4, 0.6, -0.8, 1.3, 0.5, 0.3, 0.7, -0.1, 1.7},
 float[4] b = {0.1, 0.2, 0.3, 0.4}> {
    [product] h = MatMul (x, w) [bias] y = Add (h, b)
}"""
ALONE = LINEAR.replace("[bias] y = Add (h, b)", "").replace("h =", "y =")


def optimized(source: Any, token: str, **options: Any) -> onnxcast.Result:
    return onnxcast.optimize(source, fp32_cast=token, **options)


def errors_of(result: onnxcast.Result) -> tuple[float, float]:
    proof = result.report.proof
    assert proof is not None
    assert proof.ok
    [error] = proof.twin_errors
    return error.max_error, error.rms_error


def constant(proto: onnx.ModelProto, name: str) -> Array:
    [tensor] = [tensor for tensor in proto.graph.initializer if tensor.name == name]
    return onnx.numpy_helper.to_array(tensor)


def interface(proto: onnx.ModelProto) -> list[tuple[str, onnx.TypeProto]]:
    return [(value.name, value.type) for value in (*proto.graph.input, *proto.graph.output)]


def relative_errors(found: Array, wanted: Array) -> tuple[float, float]:
    difference, scale = found.astype(np.float64) - wanted, wanted.astype(np.float64)
    rms = np.sqrt(np.mean(difference**2)) / np.sqrt(np.mean(scale**2))
    return float(np.abs(difference).max() / np.abs(scale).max()), float(rms)


def test_all_fp32r_adds_nothing_but_marks() -> None:
    source = parsed(LINEAR)
    result = optimized(source, "all-fp32r", inputs={"x": X}).to_proto()
    assert [node.op_type for node in result.graph.node] == ["MatMul", "Add"]
    assert interface(result) == interface(source)
    for name in ("w", "b"):
        np.testing.assert_array_equal(constant(result, name), constant(source, name))
    assert {tensor.data_type for tensor in result.graph.initializer} == {onnx.TensorProto.FLOAT}
    # As it is, it computes what the source does.
    np.testing.assert_array_equal(run(result, {"x": X})[0], run(source, {"x": X})[0])


def test_the_proof_of_all_fp32r_has_the_errors_that_numpy_has() -> None:
    source = parsed(LINEAR)
    w, b = constant(source, "w"), constant(source, "b")
    product = low(low(X) @ low(w))
    wanted = relative_errors(low(product + low(b)), X @ w + b)
    found = errors_of(optimized(source, "all-fp32r", inputs={"x": X}))
    assert min(found) > 0
    assert found == pytest.approx(wanted, rel=1e-3)


def test_matmult_fp32r_marks_operands_only() -> None:
    source = parsed(LINEAR)
    result = optimized(source, "matmult-fp32r", inputs={"x": X})
    product, bias = result.model.graph
    assert marked_operands(product) == {0: F32R, 1: F32R}
    assert marked_operands(bias) == {}
    assert [marked_format(node.outputs[0]) for node in (product, bias)] == [None, None]
    w, b = constant(source, "w"), constant(source, "b")
    wanted = relative_errors(low(X) @ low(w) + b, X @ w + b)
    assert errors_of(result) == pytest.approx(wanted, rel=1e-3)


def test_fewer_bits_give_larger_errors() -> None:
    source = parsed(ALONE)
    w, found = constant(source, "w"), []
    for bits in (7, 11):
        result = optimized(source, "all-fp32r", inputs={"x": X}, fp32r_bits=bits, tolerance=0.1)
        wanted = relative_errors(low(low(X, bits) @ low(w, bits), bits), X @ w)
        found.append(errors_of(result))
        assert found[-1] == pytest.approx(wanted, rel=0.02)
    assert found == sorted(found, reverse=True)
    assert found[0][0] > 4 * found[1][0] > 0


@pytest.mark.parametrize("token", ["all-fp32r", "matmult-fp32r"])
def test_a_second_run_changes_no_byte(token: str, tmp_path: pathlib.Path) -> None:
    once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
    optimized(parsed(LINEAR), token, inputs={"x": X}).save(once)
    optimized(once, token, inputs={"x": X}).save(twice)
    assert twice.read_bytes() == once.read_bytes()


UNKNOWN = """g (float[2] x) => (float[2] y) {
    a = Sigmoid (x) b, c = elsewhere.Thing (a, x) y = Mul (b, c)
}"""


def test_the_report_lists_what_crosses_unknown_ops_for_float32r_only() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "elsewhere": 1]>' + UNKNOWN
    )
    for name in "abc":
        proto.graph.value_info.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])
        )
    report = optimized(proto, "all-fp32r", verify=False).report.to_dict()
    assert (report["call_ins"], report["call_outs"]) == (["a", "x"], ["b", "c"])
    report = optimized(proto, "all-fp16", verify=False).report.to_dict()
    assert not {"call_ins", "call_outs"} & set(report)


@pytest.mark.parametrize(
    "text",
    [
        *("garbage", "-1:float32r", "9:float32r", "0:float31"),
        pytest.param(f"{'9' * 5000}:float32r", id="many digits"),
    ],
)
def test_a_mark_that_is_none_of_ours_names_node_and_key(text: str) -> None:
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> ' + ALONE)
    mark = model.graph.node[0].metadata_props.add()
    mark.key, mark.value = "onnxcast.operands", text
    with pytest.raises(onnxcast.InputError, match=r"node product: metadata onnxcast\.operands is"):
        onnxcast.optimize(model, fp32_cast="all-fp16")


def test_a_mark_that_is_none_of_ours_is_refused_without_the_proof_too() -> None:
    text = "g (float16[4] h) => (float[4] y) { a = Cast <to = 1> (h) y = Softmax (a) }"
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> ' + text)
    mark = model.graph.node[1].metadata_props.add()
    mark.key, mark.value = "onnxcast.operands", "0:nonsense"
    for token in ("all-fp16", "all-fp32r"):
        with pytest.raises(onnxcast.InputError, match=r"metadata onnxcast\.operands is"):
            onnxcast.optimize(model, fp32_cast=token, verify=False)
