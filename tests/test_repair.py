"""What does not verify as it is planned, until it does."""

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxcast

Feeds = dict[str, np.ndarray[Any, np.dtype[Any]]]

OVERFLOWS = """<ir_version: 10, opset_import: ["": 21]>
g (float[2,4] x) => (float[2,4] y)
<float[4,4] w = {1, 0.5, 0, 0, 0, 1, 0.5, 0, 0, 0, 1, 0.5, 0.5, 0, 0, 1}, float small = {0.001}> {
    [product] h = MatMul (x, w)
    [square] s = Mul (h, h)
    [scale] y = Mul (s, small)
}"""
LOUD: Feeds = {"x": np.linspace(-900, 1000, 8, dtype=np.float32).reshape(2, 4)}

CANCELS = """<ir_version: 10, opset_import: ["": 21]>
g (float[2,4] x) => (float[2,4] y)
<float[4,4] w = {1, 0.5, 0, 0, 0, 1, 0.5, 0, 0, 0, 1, 0.5, 0.5, 0, 0, 1}, float big = {600}> {
    [up] a = Add (x, big)
    [down] b = Sub (a, big)
    [product] y = MatMul (b, w)
}"""
QUIET: Feeds = {"x": np.linspace(-0.1, 0.1, 8, dtype=np.float32).reshape(2, 4)}


def optimized(source: object, feeds: Feeds, **options: Any) -> onnxcast.Result:
    return onnxcast.optimize(source, fp32_cast="all-fp16", inputs=feeds, **options)


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def formats(result: onnxcast.Result) -> dict[str, tuple[str, str]]:
    rows = result.report.to_dict()["groups"]
    return {row["node"]: (row["format"], row["reason"]) for row in rows}


def test_what_leaves_the_format_is_pinned_with_the_figure() -> None:
    result = optimized(parsed(OVERFLOWS), LOUD)
    assert formats(result) == {
        "product": ("float16", "MATMUL_OPERANDS"),
        "square": ("float32", "PINNED"),
        "scale": ("float32", "PINNED"),
    }
    pins = {node.name: node.metadata_props.get("onnxcast.pin") for node in result.model.graph}
    reached = float(
        np.square(
            LOUD["x"]
            @ np.array([[1, 0.5, 0, 0], [0, 1, 0.5, 0], [0, 0, 1, 0.5], [0.5, 0, 0, 1]], np.float32)
        ).max()
    )
    assert pins["square"] == f"s reaches {reached:.6g}"


def test_without_repair_it_is_refused() -> None:
    with pytest.raises(onnxcast.VerificationError, match="first diverging node: square"):
        optimized(parsed(OVERFLOWS), LOUD, repair=False)


def test_the_worst_nodes_are_pinned_until_it_verifies() -> None:
    result = optimized(parsed(CANCELS), QUIET)
    found = formats(result)
    assert {found["up"], found["down"]} == {("float32", "PINNED")}
    assert result.report.proof is not None
    assert result.report.proof.ok


def test_what_verifies_is_left_alone() -> None:
    loud = {"x": LOUD["x"] / np.float32(100)}
    result = optimized(parsed(OVERFLOWS), loud)
    assert {format_ for format_, _ in formats(result).values()} == {"float16"}
    assert result.to_proto() == optimized(parsed(OVERFLOWS), loud, repair=False).to_proto()


@pytest.mark.parametrize(("text", "feeds"), [(OVERFLOWS, LOUD), (CANCELS, QUIET)])
def test_later_runs_keep_to_the_pins(text: str, feeds: Feeds, tmp_path: pathlib.Path) -> None:
    once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
    optimized(parsed(text), feeds).save(once)
    for repair in (True, False):
        optimized(once, feeds, repair=repair).save(twice)
        assert twice.read_bytes() == once.read_bytes()


def test_pins_are_forgotten_on_request(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pinned.onnx"
    optimized(parsed(OVERFLOWS), LOUD).save(path)
    quiet = {"x": LOUD["x"] / np.float32(100)}
    kept = optimized(path, quiet)
    assert formats(kept)["square"] == ("float32", "PINNED")
    forgotten = optimized(path, quiet, forget_pins=True)
    assert formats(forgotten)["square"] == ("float16", "REQUESTED")


def test_the_worst_of_several_samples_decides() -> None:
    # The first sample is all zeros, which no rounding disturbs.
    silent = {"x": np.zeros((2, 4), np.float32)}
    result = onnxcast.optimize(parsed(CANCELS), fp32_cast="all-fp16", inputs=[silent, QUIET])
    found = formats(result)
    assert {found["up"], found["down"]} == {("float32", "PINNED")}
    assert found["product"][0] == "float16"
    assert result.verified
    assert result.report.inputs == "2 samples from memory"


def test_whole_numbers_that_come_out_unequal_leave_nothing_narrow_before_them() -> None:
    text = CANCELS.replace("(float[2,4] y)", "(float[2,4] y, int64[2] best, float[2,4] z)").replace(
        "[product]",
        "[pick] best = ArgMax <axis = 1, keepdims = 0> (b) "
        "[beside] r = Sigmoid (x) z = Neg (r) [product]",
    )
    result = optimized(parsed(text), QUIET)
    found = formats(result)
    assert {found["up"], found["down"]} == {("float32", "PINNED")}
    assert found["beside"] == ("float16", "REQUESTED")
    assert result.verified
    figures = {pin["node"]: pin["figure"] for pin in result.report.to_dict()["pins"]}
    assert figures["up"] == "best is computed from it, and differs; weights too"
