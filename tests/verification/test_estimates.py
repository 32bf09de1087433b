"""What nodes do to the outputs, estimated from one run."""

import math
import pathlib
from collections.abc import Iterator

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.planning import PinLevel, make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from onnxcast.verification.estimates import Estimates, estimate
from onnxcast.verification.sensitivity import Choice, Sensitivity
from onnxcast.verification.session import Worker
from onnxcast.verification.switches import Switched
from onnxcast.verification.values import Feeds
from tests.networks import network, sample

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
QUIET: Feeds = {"x": np.linspace(-0.1, 0.1, 8, dtype=np.float32)}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def switched(model: ir.Model) -> Switched:
    def choose(node: ir.Node) -> str | None:
        return "narrow" if node.name in ("up", "down") else None

    policy = make_policy(fp32_cast="all-fp16", policy=choose)
    return Switched(model, make_plan(model, policy, GENERIC))


def estimated(
    model: ir.Model, feeds: Feeds, worker: Worker, folder: pathlib.Path, limit: float = 1.0
) -> tuple[list[str], Estimates]:
    """The nodes that have switches by name, and what they do if all outputs have one limit."""
    switches = switched(model)
    limits = {value.name or "": limit for value in model.graph.outputs}
    found = estimate(model, switches, limits, [feeds], worker, folder)
    return [node.name or "" for node in switches.nodes], found


def parsed(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER + text))


def test_what_is_lost_before_a_difference_counts_by_what_the_difference_makes_of_it(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = parsed("""g (float[8] x) => (float[8] y) <float big = {600}> {
        [first] a = Sigmoid (x) [up] b = Add (x, big) [down] c = Sub (b, big) [last] y = Mul (c, a)
    }""")
    names, found = estimated(model, QUIET, worker, tmp_path)
    own = dict(zip(names, found.activations, strict=True))
    assert min(own["up"], own["down"]) > 100 * max(own["first"], own["last"]) > 0
    # Seen by itself the sum is no worse than others.
    assert dict(zip(names, found.local, strict=True))["up"] < 1e-3
    _, half = estimated(model, QUIET, worker, tmp_path, limit=0.5)
    assert half.activations == pytest.approx([2 * each for each in found.activations])


def test_estimates_are_near_what_each_node_does_alone(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = ir.from_proto(network(6, [(2, "cancellation")]))
    names, found = estimated(model, sample(), worker, tmp_path)
    switches = switched(model)
    runs = Sensitivity(switches, [sample()], worker, tmp_path)
    all_wide = Choice({}, PinLevel.WIDE)
    choices = [all_wide, *(Choice({k: PinLevel.NONE}, PinLevel.WIDE) for k in range(len(names)))]
    [plain, *alone] = [each[0]["y"] for each in runs.outputs(choices, [0])]
    for each, got in zip(found.activations, alone, strict=True):
        error = float(np.abs(got - plain).sum() / np.abs(plain).sum())  # type: ignore[operator,arg-type]  # both are arrays
        assert each == pytest.approx(error, rel=3, abs=1e-5)
        assert error < 4 * each + 1e-5


BODIES = {
    "if": """g (float[8] x, float[8] far) => (float[8] y) {
        f = Constant <value = bool {1}> ()
        y = If (f) <then_branch = t () => (float[8] p) {
                [up] u = Add (x, far) [down] p = Sub (u, far) },
            else_branch = e () => (float[8] q) { q = Relu (x) }>
    }""",
    "loop": """g (float[8] x, float[8] far) => (float[8] y) {
        n = Constant <value = int64 {3}> ()
        y = Loop (n, , x) <body = b (int64 i, bool c, float[8] s) => (bool d, float[8] t) {
            d = Identity (c) [up] u = Add (s, far) [down] t = Sub (u, far) }>
    }""",
}


@pytest.mark.parametrize("kind", BODIES)
def test_nodes_of_bodies_are_estimated(kind: str, worker: Worker, tmp_path: pathlib.Path) -> None:
    feeds = {**QUIET, "far": np.full(8, 600, np.float32)}
    names, found = estimated(parsed(BODIES[kind]), feeds, worker, tmp_path)
    own = dict(zip(names, found.activations, strict=True))
    assert min(own["up"], own["down"]) > 0.1


def test_what_overflows_is_worst(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = parsed("""g (float[8] x) => (float[8] y) <float far = {1e4}> {
        [up] a = Mul (x, far) [square] b = Mul (a, a) [down] y = Sigmoid (b) }""")
    feeds: Feeds = {"x": np.linspace(1, 8, 8, dtype=np.float32)}
    names, found = estimated(model, feeds, worker, tmp_path)
    assert math.isinf(dict(zip(names, found.local, strict=True))["square"])


def test_outputs_that_do_not_count_are_no_reason(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = parsed("""g (float[8] x) => (float[8] y, float[8] z) {
        [up] y = Mul (x, x) [down] z = Add (x, x) }""")
    switches = switched(model)
    limits = {"y": 1e-3, "z": math.inf}
    found = estimate(model, switches, limits, [QUIET], worker, tmp_path)
    by_name = dict(zip((node.name for node in switches.nodes), found.activations, strict=True))
    assert by_name["up"] > 0.1
    assert by_name["down"] == 0


def test_before_opset_9_nothing_is_known(worker: Worker, tmp_path: pathlib.Path) -> None:
    text = '<ir_version: 3, opset_import: ["": 8]> g (float[8] x) => (float[8] y) { y = Tanh (x) }'
    model = ir.from_proto(onnx.parser.parse_model(text))
    _, found = estimated(model, QUIET, worker, tmp_path)
    assert list(found.activations) == [0.0]
