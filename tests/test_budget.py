"""An error budget: as narrow as the numbers allow."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxcast
from onnxcast.search import allowed_trials
from tests.networks import FAULTS, Fault, network, sample


def pins_of(result: onnxcast.Result) -> set[str]:
    return {row["node"] for row in result.report.to_dict()["pins"]}


def wide_in(result: onnxcast.Result) -> set[str]:
    """What is float32: the pins, and what is not worth being narrow between them."""
    rows = result.report.to_dict()["groups"]
    return {row["node"] for row in rows if row["format"] == "float32"}


def optimized(model: onnx.ModelProto, **options: Any) -> onnxcast.Result:
    return onnxcast.optimize(model, fp32_cast="all-fp16", **{"inputs": sample(), **options})


@pytest.mark.parametrize("budget", [None, 1e-2])
@pytest.mark.parametrize("kind", [*FAULTS, "both"])
@pytest.mark.parametrize("count", [1, 4])
def test_planted_faults_are_found_and_little_else(
    count: int, kind: Fault | str, budget: float | None
) -> None:
    layers = 40
    kinds = {"both": FAULTS}.get(kind, (kind,))
    faults: Any = [(1 + k * layers // count, kinds[k % len(kinds)]) for k in range(count)]
    result = optimized(network(layers, faults), max_error=budget)
    planted = {f"planted_{way}_{layer}" for layer, _ in faults for way in ("up", "down")}
    found = pins_of(result)
    assert planted <= found
    assert len(found - planted) <= 2 * count
    search = result.report.search
    if search is not None:
        assert search.trials <= search.trial_bound
        assert search.trial_bound <= allowed_trials(search.groups, len(found))


def test_no_single_pin_can_go() -> None:
    model = network(30, [(3, "overflow"), (12, "cancellation"), (21, "cancellation")])
    result = optimized(model, max_error=1e-3)
    assert result.report.search is not None
    assert result.report.search.minimal
    pins = result.report.to_dict()["pins"]
    assert len(pins) > 4
    for gone in pins:
        report = result.report.to_dict()
        report["pins"] = [pin for pin in pins if pin != gone]
        with pytest.raises(onnxcast.VerificationError):
            onnxcast.optimize(model, plan=report, inputs=sample())


def test_a_larger_budget_never_takes_more_pins() -> None:
    model = network(30, [(3, "overflow"), (12, "cancellation"), (21, "cancellation")])
    counts = [len(pins_of(optimized(model, max_error=1e-2 * by))) for by in (0.01, 0.1, 1, 10)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


METRICS: dict[str, tuple[float, Callable[[Any, Any], bool]]] = {
    "relmax": (1e-3, lambda a, b: np.abs(a - b).max() / np.abs(a).max() <= 1e-3),
    "rms": (1e-3, lambda a, b: np.sqrt(np.mean((a - b) ** 2) / np.mean(a**2)) <= 1e-3),
    "cosine": (
        1e-6,
        lambda a, b: (
            1 - (a * b).sum() / np.sqrt(np.sum(a**2, dtype=np.float64) * np.sum(b**2)) <= 1e-6
        ),
    ),
    "sqnr": (60.0, lambda a, b: 10 * np.log10(np.sum(a**2) / np.sum((a - b) ** 2)) >= 60),
}


@pytest.mark.parametrize("metric", METRICS)
def test_each_metric_holds(metric: str) -> None:
    limit, holds = METRICS[metric]
    model = network(20, [(3, "cancellation"), (12, "cancellation")])
    result = optimized(model, max_error=limit, metric=metric)
    assert 0 < len(pins_of(result)) < 40
    proof = result.report.proof
    assert proof is not None
    [error] = proof.twin_errors
    assert error.budget.startswith(f"{metric} {limit:g}")
    source, twin = outputs_of(model), twin_outputs_of(result)
    assert holds(source.astype(np.float64), twin.astype(np.float64))


def outputs_of(model: onnx.ModelProto) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, sample())[0]


def twin_outputs_of(result: onnxcast.Result) -> Any:
    import onnx_ir as ir

    from onnxcast.verification.twin import build_twin

    return outputs_of(ir.to_proto(build_twin(result.model).model))


TWO = """<ir_version: 10, opset_import: ["": 21]>
g (float[4,8] x) => (float[4,8] a, float[4,8] b)
<float far = {3000}> {
    [up] u = Add (x, far) [down] a = Sub (u, far)
    [rise] r = Add (x, far) [fall] b = Sub (r, far)
}"""


def two(**options: Any) -> onnxcast.Result:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    return optimized(onnx.parser.parse_model(TWO), inputs={"x": x}, **options)


def test_budgets_may_differ_by_output() -> None:
    assert wide_in(two(max_error={"a": 1e-3, "b": 3.0})) == {"up", "down"}
    assert wide_in(two(max_error={"a": 3.0, "*": 1e-3})) == {"rise", "fall"}
    assert wide_in(two(max_error=3.0)) == set()
    # An output without a budget is held to the tolerance.
    assert wide_in(two(max_error={"a": 3.0})) == {"rise", "fall"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_error": {"c": 1.0}}, "max error for 'c': no such output; the outputs are a, b"),
        ({"max_error": {1: 1.0}}, "max error for 1: no such output; the outputs are a, b"),
        ({"max_error": 10**400}, "a number from 0 up"),
        ({"max_error": 1.0, "budget_seconds": 10**400}, "a number of seconds"),
        ({"max_error": -1.0}, "max error -1.0: a number from 0 up"),
        ({"max_error": math.nan}, "max error nan: a number from 0 up"),
        ({"max_error": 1.0, "metric": "psnr"}, "unknown metric 'psnr': known are relmax, rms"),
        ({"metric": "rms"}, "metric without max_error"),
        ({"max_error": 1.0, "tolerance": 1.0}, "max_error together with tolerance"),
        ({"max_error": 1.0, "verify": False}, "max_error without a proof"),
        ({"budget_seconds": -1.0}, "budget_seconds -1.0: a number of seconds"),
        ({"max_error": 0.1, "metric": "top1"}, "metric top1: the samples have no labels"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(onnxcast.InputError) as raised:
        two(**options)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("metric", "limit"), [("relmax", 5e-324), ("sqnr", 1e308)])
def test_budgets_without_measure_leave_wide_what_rounds(metric: str, limit: float) -> None:
    assert wide_in(two(max_error=limit, metric=metric)) == {"up", "down", "rise", "fall"}


def test_an_impossible_budget_is_refused_with_output_and_figure() -> None:
    with pytest.raises(onnxcast.VerificationError) as raised:
        two(max_error=1e-3, narrow_nodes=["up", "down"])
    text = str(raised.value)
    assert text.startswith("the budget cannot be kept even with all wide that may be: output 'a'")
    assert "relmax error" in text
    assert "above 0.001" in text


def test_without_any_error_allowed_what_rounds_nothing_stays_narrow() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[8] x) => (float[8] y, float[8] z)
    <float half = {0.5}, float third = {0.3333}> {
        [exact] h = Mul (x, half) [more] y = Relu (h) [rounds] z = Mul (x, third)
    }"""
    x = np.arange(8, dtype=np.float32)
    result = optimized(onnx.parser.parse_model(text), inputs={"x": x}, max_error=0)
    assert pins_of(result) == {"rounds"}


SCORES = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,4] x) => (float[N,4] y) <float far = {3000}> {
    [up] u = Add (x, far) [down] y = Sub (u, far)
}"""


def scores(samples: Any, **options: Any) -> onnxcast.Result:
    model = onnx.parser.parse_model(SCORES)
    return optimized(model, inputs=samples, metric="top1", **options)


def labelled(gap: float, count: int = 8, name: str = "labels") -> dict[str, Any]:
    """Scores of which the right one is largest, in every other row by a gap."""
    x = np.zeros((count, 4), np.float32)
    labels = np.arange(count) % 4
    x[np.arange(count), labels] = np.where(np.arange(count) % 2, gap, 100)
    x[:, 0] += np.where((np.arange(count) % 2 == 1) & (labels != 0), gap / 2, 0)
    return {"x": x, name: labels}


@pytest.mark.parametrize("name", ["labels", "y"])
def test_labels_lost_are_counted(name: str) -> None:
    # The gap is lost in steps of 2 behind 3000, so every other label is.
    assert wide_in(scores(labelled(0.5, name=name), max_error=0.4)) == {"up", "down"}
    assert wide_in(scores(labelled(0.5, name=name), max_error=0.5)) == set()
    assert wide_in(scores(labelled(16.0, name=name), max_error=0)) == set()


def test_labels_are_counted_over_all_samples() -> None:
    samples = [labelled(16.0), labelled(16.0), labelled(0.5)]
    assert wide_in(scores(samples, max_error=0.17)) == set()
    assert wide_in(scores(samples, max_error=0.16)) == {"up", "down"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"labels": np.zeros(3, np.int64)}, "labels of output 'y', sample 0: they have shape [3]"),
        ({"labels": np.zeros(8)}, "labels of output 'y': they are float64; whole numbers"),
        ({"labels": None}, "metric top1: the samples have no labels"),
    ],
)
def test_labels_that_do_not_fit_are_named(change: dict[str, Any], told: str) -> None:
    given = {**labelled(0.5), **change}
    with pytest.raises(onnxcast.InputError) as raised:
        scores({name: value for name, value in given.items() if value is not None}, max_error=0.1)
    assert told in str(raised.value)


def test_a_sample_without_labels_among_others_is_named() -> None:
    with pytest.raises(onnxcast.InputError, match="sample 1 has no labels for output 'y'"):
        scores([labelled(0.5), {"x": labelled(0.5)["x"]}], max_error=0.1)


def test_a_sample_of_another_shape_is_named() -> None:
    samples = [labelled(0.5), {"x": np.zeros((2, 5), np.float32)}]
    with pytest.raises(onnxcast.InputError, match="sample 1: input 'x' has size 5 on axis 1"):
        scores(samples, max_error=0.1)


def test_without_time_all_is_wide_that_may_be() -> None:
    model = network(20, [(3, "cancellation"), (12, "cancellation")])
    result = optimized(model, max_error=1e-3, budget_seconds=0)
    assert result.verified
    search = result.report.search
    assert search is not None
    assert search.stopped == "time is up"
    assert search.note == "time is up"
    assert len(pins_of(result)) == search.pins >= len(pins_of(optimized(model, max_error=1e-3)))


def test_an_interrupt_keeps_the_best_result_so_far() -> None:
    steps: list[str] = []

    def progress(step: str) -> None:
        steps.append(step)
        if step.startswith("search: trial 3,"):
            raise KeyboardInterrupt

    model = network(20, [(3, "cancellation"), (12, "cancellation")])
    result = optimized(model, max_error=1e-3, progress=progress)
    assert result.verified
    assert result.report.search is not None
    assert result.report.search.stopped == "interrupted"
    assert "best" in steps[-1]


def test_an_interrupt_before_any_result_interrupts() -> None:
    def progress(step: str) -> None:
        if step == "run the source":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        two(max_error=1e-3, progress=progress)


def test_the_progress_tells_trials_and_the_best_and_the_time_left() -> None:
    steps: list[str] = []
    model = network(20, [(3, "cancellation"), (12, "cancellation")])
    optimized(model, max_error=1e-3, budget_seconds=600, progress=steps.append)
    trials = [step for step in steps if step.startswith("search: trial")]
    assert trials[0].startswith("search: trial 1, ")
    assert all("best " in step and step.endswith(" s left") for step in trials)


def test_the_report_tells_what_the_search_did() -> None:
    model = network(20, [(3, "cancellation"), (12, "cancellation")])
    report = json.loads(optimized(model, max_error=1e-3).report.to_json())
    search = report["search"]
    assert search["pins"] == len(report["pins"])
    assert search["limit"] == 1.0
    assert 0 < search["trials"] <= search["trial_bound"]
    assert search["note"] in ("", "not monotone")
    assert report["request"]["passes"] == {"max_error": 1e-3}
    assert optimized(network(20, [])).report.to_dict()["search"] is None
