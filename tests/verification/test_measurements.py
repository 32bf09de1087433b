"""Ranges and local errors, measured inside the graph."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.formats import FLOAT16
from onnxcast.planning import make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from onnxcast.verification.local_error import rank_by_local_error
from onnxcast.verification.ranges import Range, measure_ranges
from onnxcast.verification.session import Worker

FP16 = make_policy(fp32_cast="all-fp16")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def load(text: str, opset: int = 21) -> ir.Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}]>'
    return ir.from_proto(onnx.parser.parse_model(header + text))


def measured(
    model: ir.Model, feeds: list[dict[str, Any]], worker: Worker, folder: pathlib.Path
) -> dict[str, float]:
    found = measure_ranges(model, FLOAT16, feeds, worker, folder)
    return {name: each.absmax for name, each in found.items()}


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_a_range_is_five_numbers(opset: int, worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[n] x) => (float[n] y) { y = Neg (x) }", opset)
    samples = [
        {"x": np.array([3, -1e-3, np.inf, 7e4, 65504], np.float32)},
        {"x": np.array([0, np.nan, -np.inf, -8e4], np.float32)},
    ]
    found = measure_ranges(model, FLOAT16, samples, worker, tmp_path)
    low, high, small = (float(np.float32(number)) for number in (-8e4, 7e4, 1e-3))
    assert found["x"] == Range(low, high, small, non_finite=3, beyond=2)
    assert found["y"] == Range(-high, -low, small, non_finite=3, beyond=2)


def test_what_is_never_finite_has_no_range(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[1] x) => (float[1] y) { y = Neg (x) }")
    feeds = [{"x": np.array([np.nan], np.float32)}]
    found = measure_ranges(model, FLOAT16, feeds, worker, tmp_path)["x"]
    assert found == Range(np.inf, -np.inf, np.inf, non_finite=1, beyond=0)
    assert found.absmax == 0


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_a_range_is_the_largest_finite_magnitude_over_all_samples(
    opset: int, worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = load("g (float[3] x) => (float[3] y) { h = Neg (x) y = Exp (h) }", opset)
    samples = [
        {"x": np.array([1, -3, np.inf], np.float32)},
        {"x": np.array([2, 0.5, np.nan], np.float32)},
    ]
    found = measured(model, samples, worker, tmp_path)
    assert found == pytest.approx({"x": 3.0, "h": 3.0, "y": np.exp(3)}, rel=1e-6)


def test_an_empty_value_reaches_nothing(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[n] x) => (float[n] y) { y = Neg (x) }")
    found = measured(model, [{"x": np.zeros(0, np.float32)}], worker, tmp_path)
    assert found == {"x": 0.0, "y": 0.0}


def test_integers_and_narrow_values_are_not_measured(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = load("g (float[2] x) => (int64[2] y) { h = Cast <to = 10> (x) y = Cast <to = 7> (h) }")
    found = measured(model, [{"x": np.ones(2, np.float32)}], worker, tmp_path)
    assert found == {"x": 1.0}


def test_a_model_before_where_is_not_measured(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }", opset=8)
    assert measured(model, [{"x": np.ones(2, np.float32)}], worker, tmp_path) == {}


def test_measuring_leaves_the_model_alone(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    before = ir.to_proto(model)
    feeds = [{"x": np.ones(2, np.float32)}]
    measured(model, feeds, worker, tmp_path)
    rank_by_local_error(model, make_plan(model, FP16, GENERIC), feeds, worker, tmp_path)
    assert ir.to_proto(model) == before


def ranked(text: str, x: list[float], worker: Worker, folder: pathlib.Path) -> dict[str, float]:
    model = load(text)
    plan = make_plan(model, FP16, GENERIC)
    feeds = [{"x": np.array(x, np.float32)}]
    found = rank_by_local_error(model, plan, feeds, worker, folder)
    return {node.outputs[0].name or "": error for node, error in found}


def test_each_node_is_charged_with_its_own_error_only(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    # 1000 + x rounds x away; what follows computes exactly with what it is given.
    text = """g (float[1] x) => (float[1] y) <float big = {1000}> {
        a = Add (x, big) b = Sub (a, big) y = Neg (b) }"""
    found = ranked(text, [0.2], worker, tmp_path)
    assert next(iter(found)) == "b"
    a = np.float16(np.float16(0.2) + 1000)
    assert found["a"] == pytest.approx(abs(float(a) - 1000.2) / 1000.2, rel=1e-3)
    left = float(np.float32(np.float32(0.2) + np.float32(1000)) - np.float32(1000))
    b = float(np.float16(1000.2)) - 1000
    assert found["b"] == pytest.approx(abs(b - left) / left, rel=1e-3)
    assert found["y"] == pytest.approx(abs(float(np.float16(left)) - left) / left, rel=1e-3)


def test_an_overflow_is_an_infinite_error(worker: Worker, tmp_path: pathlib.Path) -> None:
    text = "g (float[2] x) => (float[2] y) { a = Mul (x, x) y = Sqrt (a) }"
    found = ranked(text, [1000, 1], worker, tmp_path)
    assert list(found) == ["a", "y"]
    assert found["a"] == np.inf


def test_nodes_inside_a_branch_come_last(worker: Worker, tmp_path: pathlib.Path) -> None:
    text = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        a = Exp (x) h = Tanh (x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Tanh (h) },
                    else_branch = e () => (float[2] q) { q = Tanh (x) }> }"""
    found = ranked(text, [0.3, 0.4], worker, tmp_path)
    assert next(iter(found)) == "h"
    assert [error for name, error in found.items() if name != "h"] == [0.0, 0.0]
