"""Numbers of values inside subgraphs, seen from outside."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

import onnxcast
from onnxcast.verification.ranges import Range, measure_magnitudes, measure_ranges
from onnxcast.verification.session import Worker

BRANCHES = """g (float[n] x, bool c) => (float[n] y) {
    y = If (c) <then_branch = t () => (float[n] p) { d = Add (x, x) p = Neg (d) },
                else_branch = e () => (float[n] q) { h = Mul (x, x) q = Neg (h) }> }"""
LOOP = """g (float[2] x, int64 steps) => (float[2] y) <bool go = {1}> {
    y = Loop (steps, go, x) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] next) {
        next = Add (s, s) }> }"""
NESTED = """g (float[2] x, int64 steps) => (float[2] y) <bool go = {1}, int64 two = {2}> {
    y = Loop (steps, go, x) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] next) {
        first = Less (i, two)
        next = If (first) <then_branch = t () => (float[2] p) { p = Add (s, s) },
                           else_branch = e () => (float[2] q) { q = Neg (s) }> }> }"""
SCAN = """g (float[3,2] x, float[2] start) => (float[2] y, float[3,2] z) {
    y, z = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] e)
        => (float[2] t, float[2] o) { t = Add (s, e) o = Neg (t) }> (start, x) }"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def load(text: str, opset: int = 21) -> ir.Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}]>'
    return ir.from_proto(onnx.parser.parse_model(header + text))


def floats(*numbers: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_branch_counts_when_it_is_taken(
    opset: int, worker: Worker, tmp_path: pathlib.Path
) -> None:
    model, names = load(BRANCHES, opset), ["x", "d", "h", "y"]
    then = {"x": floats(3, -4), "c": np.array(True)}
    other = {"x": floats(5), "c": np.array(False)}
    assert measure_magnitudes(model, names, [then], worker, tmp_path) == {
        "x": 4.0,
        "d": 8.0,
        "h": 0.0,
        "y": 8.0,
    }
    assert measure_magnitudes(model, names, [then, other], worker, tmp_path) == {
        "x": 5.0,
        "d": 8.0,
        "h": 25.0,
        "y": 25.0,
    }


def test_a_range_inside_a_branch_is_that_of_the_samples_that_take_it(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    feeds = [
        {"x": floats(3, -4, np.nan), "c": np.array(True)},
        {"x": floats(100), "c": np.array(False)},
    ]
    found = measure_ranges(load(BRANCHES), {"d": 7.0, "h": 1e5}, feeds, worker, tmp_path)
    assert found == {
        "d": Range(-8.0, 6.0, 6.0, non_finite=1, beyond=1),
        "h": Range(1e4, 1e4, 1e4, non_finite=0, beyond=0),
    }


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize(("steps", "reached"), [(0, 0.0), (1, 6.0), (3, 24.0)])
def test_all_steps_of_a_loop_count(
    steps: int, reached: float, opset: int, worker: Worker, tmp_path: pathlib.Path
) -> None:
    feeds = [{"x": floats(1, -3), "steps": np.array(steps)}]
    found = measure_magnitudes(load(LOOP, opset), ["s", "next"], feeds, worker, tmp_path)
    assert found == {"s": reached / 2, "next": reached}


def test_what_is_not_a_number_in_one_step_is_seen(worker: Worker, tmp_path: pathlib.Path) -> None:
    feeds = [{"x": floats(1, np.nan), "steps": np.array(2)}]
    found = measure_magnitudes(load(LOOP), ["next"], feeds, worker, tmp_path)
    assert found == {"next": np.inf}


def test_branches_inside_a_loop_are_seen(worker: Worker, tmp_path: pathlib.Path) -> None:
    feeds = [{"x": floats(1, -3), "steps": np.array(4)}]
    found = measure_magnitudes(load(NESTED), ["p", "q"], feeds, worker, tmp_path)
    assert found == {"p": 12.0, "q": 12.0}
    once = [{"x": floats(1, -3), "steps": np.array(1)}]
    assert measure_magnitudes(load(NESTED), ["p", "q"], once, worker, tmp_path) == {
        "p": 6.0,
        "q": 0.0,
    }


def test_all_steps_of_a_scan_count(worker: Worker, tmp_path: pathlib.Path) -> None:
    feeds = [{"x": floats(1, 2, 3, 4, -50, 1).reshape(3, 2), "start": floats(0, 0)}]
    found = measure_magnitudes(load(SCAN), ["e", "t", "o"], feeds, worker, tmp_path)
    assert found == {"e": 50.0, "t": 46.0, "o": 46.0}


def test_the_model_stays_as_it_is(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load(NESTED)
    before = ir.to_proto(model)
    feeds = [{"x": floats(1, -3), "steps": np.array(4)}]
    measure_magnitudes(model, ["p", "q"], feeds, worker, tmp_path)
    assert ir.to_proto(model) == before


def test_what_leaves_the_format_inside_a_branch_is_pinned_there() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]>' + BRANCHES
    feeds = {"x": floats(1000, 2), "c": np.array(False)}
    result = onnxcast.optimize(
        onnx.parser.parse_model(text), fp32_cast="all-fp16", inputs=feeds, tolerance=1e-2
    )
    assert result.report.plan is not None
    pins = {pin["node"]: pin["figure"] for pin in result.report.plan.pins()}
    assert pins == {"Mul(-> h)": "h reaches 1e+06", "Neg(-> q)": "q reaches 1e+06"}
