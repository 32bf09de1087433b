"""Every value that two models have in common: how far apart, and how large."""

import math
import pathlib
from collections.abc import Iterator

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.verification.comparison import Tolerance
from onnxcast.verification.layers import Layer, measure_layers
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.values import Feeds

HEADER = '<ir_version: 10, opset_import: ["": 21]>'


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def load(graph: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER + graph))


def layers(
    before: str, after: str, worker: Worker, folder: pathlib.Path, *samples: Feeds
) -> dict[str, Layer]:
    models = load(before), load(after)
    outputs = [list(model.graph.outputs) for model in models]
    feeds = (samples, samples)
    found = list(measure_layers(*models, feeds, Tolerance(1e-2, 1e-2), worker, folder))
    assert [list(model.graph.outputs) for model in models] == outputs
    return {layer.value: layer for layer in found}


BEFORE = """g (float[N] x) => (float[N] z) {
    [scale] y = Mul (x, two)
    [count] n = Shape (x)
    z = Neg (y)
}"""


def scaled(factor: float) -> str:
    return BEFORE.replace("=> (float[N] z)", f"=> (float[N] z) <float[1] two = {{{factor}}}>")


def test_errors_and_ranges_are_the_worst_over_the_samples(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    samples = [{"x": np.array(values, np.float32)} for values in ([1, 0.5], [-4, 0])]
    found = layers(scaled(2), scaled(2.1), worker, tmp_path, *samples)
    assert list(found) == ["y", "n", "z"]
    y = found["y"]
    assert (y.node, y.op) == ("scale", "Mul")
    assert math.isclose(y.max_error, 0.05, rel_tol=1e-6)
    assert math.isclose(y.rms_error, 0.05, rel_tol=1e-6)
    assert (y.low, y.high, y.smallest, y.non_finite) == (-8, 2, 1, 0)
    assert "max error 0.05 is above 0.01" in y.why
    assert found["n"].max_error == 0
    assert found["z"].node == "Neg(-> z)"


def test_values_without_elements_and_values_that_are_not_finite(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    empty = layers(scaled(2), scaled(2), worker, tmp_path, {"x": np.zeros(0, np.float32)})
    assert (empty["y"].low, empty["y"].high) == (math.inf, -math.inf)
    large = {"x": np.array([3e38, -1, np.nan], np.float32)}
    found = layers(scaled(2), scaled(2), worker, tmp_path, large)
    assert (found["y"].non_finite, found["y"].low, found["y"].high) == (2, -2, -2)
    assert not found["y"].breaks
    broken = layers(scaled(1), scaled(2), worker, tmp_path, large)
    assert broken["y"].breaks
    assert broken["y"].max_error == math.inf


def test_only_what_both_have_and_python_can_take_is_looked_at(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    before = """g (float[2] x) => (float[2] z) {
        b = Cast <to = 16> (x)
        y = Cast <to = 1> (b)
        z = Neg (y)
    }"""
    after = "g (float[2] x) => (float[2] z) { y = Identity (x) z = Neg (y) }"
    found = layers(before, after, worker, tmp_path, {"x": np.ones(2, np.float32)})
    assert list(found) == ["y", "z"]


def test_a_model_that_does_not_run_is_told(worker: Worker, tmp_path: pathlib.Path) -> None:
    bad = scaled(2).replace("Neg (y)", "Reshape (y, n)").replace("Shape (x)", "Shape (two)")
    samples = {"x": np.ones(3, np.float32)}
    with pytest.raises(RuntimeFailure):
        layers(bad, bad, worker, tmp_path, samples)
