"""Ranges measured inside the graph, and what they say against a format."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.formats import FLOAT16
from onnxcast.planning import Plan, make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from onnxcast.verification.range_pins import out_of_range, saturating, suspicious_ranges
from onnxcast.verification.ranges import Range, measure_magnitudes, measure_ranges
from onnxcast.verification.session import Worker

Feeds = list[dict[str, Any]]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def load(text: str, opset: int = 21) -> ir.Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}]>'
    return ir.from_proto(onnx.parser.parse_model(header + text))


def limits_of(model: ir.Model, limit: float = FLOAT16.max) -> dict[str, float]:
    """One limit for all float32 values, or what may be some."""
    results = [value for node in model.graph for value in node.outputs]
    values = [value for value in (*model.graph.inputs, *results) if value.name]
    floats = [v for v in values if v.dtype in (None, ir.DataType.FLOAT)]
    return dict.fromkeys((value.name or "" for value in floats), limit)


def measured(
    model: ir.Model, feeds: Feeds, worker: Worker, folder: pathlib.Path
) -> dict[str, float]:
    found = measure_ranges(model, limits_of(model), feeds, worker, folder)
    return {name: each.absmax for name, each in found.items()}


def planned(model: ir.Model, token: str = "all-fp16", **options: Any) -> Plan:
    return make_plan(model, make_policy(fp32_cast=token, **options), GENERIC)


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_a_range_is_five_numbers(opset: int, worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[n] x) => (float[n] y) { y = Neg (x) }", opset)
    samples = [
        {"x": np.array([3, -1e-3, np.inf, 7e4, 65504], np.float32)},
        {"x": np.array([0, np.nan, -np.inf, -8e4], np.float32)},
    ]
    found = measure_ranges(model, limits_of(model), samples, worker, tmp_path)
    low, high, small = (float(np.float32(number)) for number in (-8e4, 7e4, 1e-3))
    assert found["x"] == Range(low, high, small, non_finite=3, beyond=2)
    assert found["y"] == Range(-high, -low, small, non_finite=3, beyond=2)


def test_what_is_never_finite_has_no_range(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[1] x) => (float[1] y) { y = Neg (x) }")
    feeds = [{"x": np.array([np.nan], np.float32)}]
    found = measure_ranges(model, limits_of(model), feeds, worker, tmp_path)["x"]
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


def test_only_named_values_are_measured(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { h = Neg (x) y = Neg (h) }")
    feeds = [{"x": np.ones(2, np.float32)}]
    assert set(measure_ranges(model, {"h": 1.0}, feeds, worker, tmp_path)) == {"h"}
    assert set(measure_magnitudes(model, ["y", "absent"], feeds, worker, tmp_path)) == {"y"}
    assert measure_ranges(model, {}, feeds, worker, tmp_path) == {}


def test_each_value_has_its_own_limit(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[4] x) => (float[4] y) { y = Neg (x) }")
    feeds = [{"x": np.array([1, 2, -3, 4], np.float32)}] * 2
    found = measure_ranges(model, {"x": 2.0, "y": 3.5}, feeds, worker, tmp_path)
    assert {name: each.beyond for name, each in found.items()} == {"x": 4, "y": 2}


def test_a_model_before_where_is_not_measured(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }", opset=8)
    assert measured(model, [{"x": np.ones(2, np.float32)}], worker, tmp_path) == {}


def test_measuring_leaves_the_model_alone(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    before = ir.to_proto(model)
    feeds = [{"x": np.ones(2, np.float32)}]
    measured(model, feeds, worker, tmp_path)
    measure_magnitudes(model, ["x", "y"], feeds, worker, tmp_path)
    suspicious_ranges(model, planned(model), feeds, worker, tmp_path)
    assert ir.to_proto(model) == before


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_a_magnitude_is_the_largest_over_all_samples(
    opset: int, worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = load("g (float[n] x) => (float[n] y) { y = Neg (x) }", opset)
    samples = [{"x": np.array(each, np.float32)} for each in ([1, -3], [2, -5, 4])]
    found = measure_magnitudes(model, ["x", "y"], samples, worker, tmp_path)
    assert found == {"x": 5.0, "y": 5.0}


@pytest.mark.parametrize(
    ("elements", "magnitude"),
    [
        ([3.0, -4.0], 4.0),
        ([], 0.0),
        ([1.0, np.inf], np.inf),
        ([1.0, -np.inf], np.inf),
        ([np.nan], np.inf),
        ([1.0, np.nan, 1.0, 1e6], np.inf),
        ([1e6, np.nan], np.inf),
    ],
)
def test_what_is_not_finite_makes_a_magnitude_infinite(
    elements: list[float], magnitude: float, worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = load("g (float[n] x) => (float[n] y) { y = Neg (x) }")
    feeds = [{"x": np.array(elements, np.float32)}]
    assert measure_magnitudes(model, ["x"], feeds, worker, tmp_path) == {"x": magnitude}


def test_an_overflow_beside_a_nan_is_seen(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[n] x) => (float[n] y) <float half = {0.5}> { y = Mul (x, half) }")
    feeds = [{"x": np.array([1, np.nan, 1, 1e6], np.float32)}]
    plan = planned(model)
    ranges = suspicious_ranges(model, plan, feeds, worker, tmp_path)
    assert set(out_of_range(plan, ranges).values()) == {"y reaches 500000"}


def test_magnitudes_before_where_are_not_measured(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }", opset=8)
    feeds = [{"x": np.ones(2, np.float32)}]
    assert measure_magnitudes(model, ["x"], feeds, worker, tmp_path) == {}


class Pins:
    """What the ranges of one run say against a plan."""

    def __init__(self, worker: Worker, folder: pathlib.Path) -> None:
        self._worker = worker
        self._folder = folder

    def of(
        self, text: str, *samples: list[float], token: str = "all-fp16", **options: Any
    ) -> dict[str, str]:
        """The figures by the node's first result."""
        model = load(text)
        plan = planned(model, token, **options)
        feeds = [{"x": np.array(each, np.float32)} for each in samples]
        self.ranges = suspicious_ranges(model, plan, feeds, self._worker, self._folder)
        self.saturating = saturating(plan, self.ranges)
        found = out_of_range(plan, self.ranges)
        return {node.outputs[0].name or "": figure for node, figure in found.items()}


@pytest.fixture
def pins(worker: Worker, tmp_path: pathlib.Path) -> Pins:
    return Pins(worker, tmp_path)


SQUARE = "g (float[n] x) => (float[n] y) { s = Mul (x, x) y = Sqrt (s) }"
HALVED = "g (float[n] x) => (float[n] y) <float half = {0.5}> { y = Mul (x, half) }"


@pytest.mark.parametrize(
    ("reached", "figure"), [(32759.0, ""), (32760.0, "x reaches 32760"), (-4e4, "x reaches 40000")]
)
def test_a_value_that_doubled_would_overflow_is_out_of_range(
    reached: float, figure: str, pins: Pins
) -> None:
    # The largest float16 is 65504, and 65520 is the first number that rounds to infinity.
    assert pins.of(HALVED, [1.0], [reached]) == ({"y": figure} if figure else {})


def test_each_node_that_reads_or_gives_an_overflow_has_a_figure(pins: Pins) -> None:
    assert pins.of(SQUARE, [1.0, 250.0]) == {"s": "s reaches 62500", "y": "s reaches 62500"}
    assert set(pins.ranges) == {"s"}


def test_what_stays_inside_is_not_measured_twice(pins: Pins) -> None:
    assert pins.of(SQUARE, [1.0, 100.0], [0.0, -3.0]) == {}
    assert pins.ranges == {}


@pytest.mark.parametrize("reached", [1e30, 1e-30, 6e4, 1e-8])
def test_no_ordinary_value_leaves_bfloat16(reached: float, pins: Pins) -> None:
    neighbours = "g (float[n] x) => (float[n] y) { h = Neg (x) y = Relu (h) }"
    assert pins.of(neighbours, [reached, -reached], token="all") == {}
    assert pins.of(neighbours, [reached, -reached])


# Half of float16's last step, 2**-25, by the largest relative error, 2**-6.
FLOOR = 2.0**-19


@pytest.mark.parametrize(
    ("reached", "found"), [(FLOOR, False), (FLOOR * 0.99, True), (1e-9, True), (0.0, False)]
)
def test_a_value_that_vanishes_is_out_of_range(reached: float, found: bool, pins: Pins) -> None:
    text = "g (float[n] x) => (float[n] y) { h = Neg (x) y = Relu (h) }"
    figure = f"reaches no further than {reached:.6g}"
    # What is no operand of anything has nothing done to it, y for one.
    wanted = {"h": f"h {figure}", "y": f"h {figure}"} if found else {}
    assert pins.of(text, [reached, 0.0], [-reached / 2]) == wanted


ADDED = """g (float[n] x) => (float[k] y) <float one = {1}> {
    h = Neg (x) MOVES y = OP (m, one)
}"""


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize(
    "moves", ["m = Identity (h)", "i = Identity (h) m = Concat <axis=0> (i, h)"]
)
def test_a_value_that_is_only_added_may_vanish(op: str, moves: str, pins: Pins) -> None:
    text = ADDED.replace("MOVES", moves)
    assert pins.of(text.replace("OP", op), [1e-9]) == {"h": "x reaches no further than 1e-09"}
    found = pins.of(text.replace("OP", "Mul"), [1e-9])
    assert found["h"] == "h reaches no further than 1e-09"
    assert found["y"] == "m reaches no further than 1e-09"


def test_a_value_that_vanishes_is_out_of_range_if_any_reader_multiplies(pins: Pins) -> None:
    text = """g (float[n] x) => (float[n] y, float[n] z) <float one = {1}> {
        y = Add (x, one) z = Mul (x, one)
    }"""
    figure = "x reaches no further than 1e-09"
    assert pins.of(text, [1e-9]) == {"y": figure, "z": figure}


QUOTIENT = "g (float[n] x) => (float[n] y) { h = Abs (x) q = Div (x, h) y = Relu (q) }"


@pytest.mark.parametrize(
    ("least", "found"), [(2.0**-25, False), (2.0**-25 * 0.99, True), (0.0, False)]
)
def test_a_divisor_that_would_vanish_is_out_of_range(least: float, found: bool, pins: Pins) -> None:
    # A zero divides in the source too.
    figure = f"h divides and goes down to {least:.6g}"
    assert pins.of(QUOTIENT, [1.0, least, 100.0]) == ({"q": figure} if found else {})


def test_a_dividend_may_go_down_to_nothing(pins: Pins) -> None:
    text = "g (float[n] x) => (float[n] y) <float two = {2}> { h = Abs (x) y = Div (h, two) }"
    assert pins.of(text, [1.0, 1e-9]) == {}


def test_what_is_not_finite_is_looked_at_and_does_not_count(pins: Pins) -> None:
    assert pins.of(HALVED, [1.0, np.inf], [np.nan]) == {}
    assert pins.ranges["x"] == Range(1.0, 1.0, 1.0, non_finite=2, beyond=0)
    assert pins.of(HALVED, [-np.inf, 4e4]) == {"y": "x reaches 40000"}
    assert pins.of(HALVED, [np.nan, np.inf]) == {}
    assert pins.ranges["x"].absmax == 0


def test_elements_beyond_a_format_without_infinity_are_counted(pins: Pins) -> None:
    text = """g (float[n] x) => (float[n] y) { y = Mul (x, x) }"""
    pins.of(text, [1.0, 448.0, -449.0], [1e4, np.inf, 2.0], token="all-fp8e4")
    assert [(each.value, each.message) for each in pins.saturating] == [
        ("x", "x: 2 elements beyond the range of the format on the samples")
    ]
    pins.of(text, [1.0, 1e6], token="all-fp16")
    assert pins.saturating == []


def test_nodes_that_stay_wide_have_no_figure(pins: Pins) -> None:
    assert pins.of(SQUARE, [1.0, 1000.0], keep_ops=["Mul"]) == {"y": "s reaches 1e+06"}
    assert pins.of(SQUARE, [1.0, 1000.0], token="none") == {}
    assert pins.ranges == {}


EXPONENT = """g (float[2] x) => (float[2] y) <float[2] m = {0, 1}> {
    h = Neg (x) a = Add (h, m) t = Identity (a) y = Softmax (t) }"""


def test_steps_too_coarse_for_an_exponent_are_seen_through_sums(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    pins = Pins(worker, tmp_path)
    found = pins.of(EXPONENT, [-3000.0, 5.0])
    assert set(found) == {"h", "a", "y"}
    assert found["y"] == "t goes to the exponent and up to 3000, in too coarse steps"
    # What is far below the largest comes out as 0, however coarse.
    assert pins.of(EXPONENT, [3000.0, 5.0]) == {}
    assert pins.of(EXPONENT, [-200.0, 5.0]) == {}
    assert set(pins.of(EXPONENT, [-200.0, 5.0], token="all-bf16")) == {"h", "a", "y"}
    # In front of no exponent the same values are fine.
    assert pins.of(EXPONENT.replace("Softmax", "Neg"), [-3000.0, 5.0]) == {}
