"""Nodes in the order of what each alone does to the outputs."""

import math
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast import formats
from onnxcast.formats import FLOAT16
from onnxcast.planning import PinLevel, make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from onnxcast.verification.sensitivity import Choice, Sensitivity, rank
from onnxcast.verification.session import Worker
from onnxcast.verification.switches import Switched
from onnxcast.verification.values import Value

Array = npt.NDArray[Any]
Judge = Callable[[Mapping[str, Value]], float]

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
X = np.linspace(-0.1, 0.1, 8, dtype=np.float32)

CANCELS = """g (float[8] x) => (float[8] y) <float big = {600}> {
    a = Sigmoid (x) b = Add (x, big) c = Sub (b, big) y = Mul (c, a)
}"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


class Counted:
    """Judges choices of what is narrow, all else being wide, and counts what is run."""

    def __init__(
        self, switched: Switched, judge: Judge, worker: Worker, folder: pathlib.Path
    ) -> None:
        self.switched, self.judge = switched, judge
        self.sensitivity = Sensitivity(switched, [{"x": X}], worker, folder)

    @property
    def runs(self) -> int:
        return self.sensitivity.runs

    def errors(self, blocks: Sequence[Collection[int]]) -> list[float]:
        narrow = [Choice(dict.fromkeys(block, PinLevel.NONE), PinLevel.WIDE) for block in blocks]
        return [self.judge(outputs[0]) for outputs in self.sensitivity.outputs(narrow, [0])]

    def ranking(self, *, runs: int = 1000, seconds: float = 60.0) -> list[tuple[ir.Node, float]]:
        """The ranked nodes, with ample time unless told otherwise."""
        positions = range(len(self.switched.nodes))
        ranked = rank(positions, self.errors, runs=runs, seconds=seconds)
        return [(self.switched.nodes[position], error) for position, error in ranked]


def judge_of(wanted: Array) -> Judge:
    """Largest difference from what `y` should be, in tolerances of 1e-2."""

    def judge(outputs: Mapping[str, Value]) -> float:
        found = np.asarray(outputs["y"])
        return float(np.abs(found - wanted).max() / np.abs(wanted).max() / 1e-2)

    return judge


def sensitivity_of(text: str, wanted: Array, worker: Worker, folder: pathlib.Path) -> Counted:
    model = ir.from_proto(onnx.parser.parse_model(HEADER + text))
    plan = make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC)
    return Counted(Switched(model, plan), judge_of(wanted), worker, folder)


def chain(count: int, loud: int = -1) -> str:
    """`count` exact nodes, but for one that adds and one that takes away 600."""
    lines = []
    for index in range(count):
        op = {loud: "Add", loud + 1: "Sub"}.get(index, "Mul") if loud >= 0 else "Mul"
        operand = "one" if op == "Mul" else "big"
        result = f"v{index + 1}" if index + 1 < count else "y"
        lines.append(f"{result} = {op} ({f'v{index}' if index else 'x'}, {operand})")
    constants = "<float one = {1}, float big = {600}>"
    return f"g (float[8] x) => (float[8] y) {constants} {{ {' '.join(lines)} }}"


def names(ranking: list[tuple[ir.Node, float]]) -> list[str]:
    return [node.outputs[0].name or "" for node, _ in ranking]


def low(values: Array) -> Array:
    return formats.round_to(values, FLOAT16)


def cancelled(values: Array) -> Array:
    return (values + np.float32(600)) - np.float32(600)


def test_errors_are_those_of_the_nodes_that_are_on(worker: Worker, tmp_path: pathlib.Path) -> None:
    wanted = cancelled(X)
    sensitivity = sensitivity_of(chain(2, loud=0), wanted, worker, tmp_path)
    judge = judge_of(wanted)
    up = low(low(X) + np.float32(600)) - np.float32(600)
    down = low(low(X + np.float32(600)) - np.float32(600))
    both = low(low(low(X) + np.float32(600)) - np.float32(600))
    expected = [0.0, *(judge({"y": each}) for each in (up, down, both))]
    assert sensitivity.errors([(), [0], {1}, range(2)]) == expected
    assert min(expected[1:]) > 10


def test_the_node_that_does_most_comes_first(worker: Worker, tmp_path: pathlib.Path) -> None:
    wanted = cancelled(X) / (1 + np.exp(-X))
    sensitivity = sensitivity_of(CANCELS, wanted, worker, tmp_path)
    ranking = sensitivity.ranking()
    assert set(names(ranking)[:2]) == {"b", "c"}
    assert set(names(ranking)[2:]) == {"a", "y"}
    found = [error for _, error in ranking]
    assert found == sorted(found, reverse=True)
    assert found[1] > 100 * found[2]


def test_a_ranked_error_is_what_the_node_does_alone(worker: Worker, tmp_path: pathlib.Path) -> None:
    sensitivity = sensitivity_of(chain(2, loud=0), cancelled(X), worker, tmp_path)
    alone = sensitivity.errors([[0], [1]])
    found = {node.outputs[0].name: error for node, error in sensitivity.ranking()}
    assert found == pytest.approx({"v1": alone[0], "y": alone[1]})


def test_what_nothing_does_is_not_charged(worker: Worker, tmp_path: pathlib.Path) -> None:
    # What is wanted differs from the source, as where a source's own twin is the reference.
    wanted = cancelled(X) + np.float32(0.002)
    sensitivity = sensitivity_of(chain(3), wanted, worker, tmp_path)
    [nothing] = sensitivity.errors([()])
    assert nothing > 1
    for _, error in sensitivity.ranking():
        assert error < nothing / 2


@pytest.mark.parametrize("count", [2, 16, 40])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_every_node_is_ranked_once(
    count: int, seconds: float, worker: Worker, tmp_path: pathlib.Path
) -> None:
    sensitivity = sensitivity_of(chain(count), X, worker, tmp_path)
    found = names(sensitivity.ranking(seconds=seconds))
    assert sorted(found) == sorted([*(f"v{index}" for index in range(1, count)), "y"])


@pytest.mark.parametrize("loud", [0, 21, 62])
def test_blocks_are_split_down_to_the_node(
    loud: int, worker: Worker, tmp_path: pathlib.Path
) -> None:
    sensitivity = sensitivity_of(chain(64, loud), cancelled(X), worker, tmp_path)
    ranking = sensitivity.ranking()
    assert set(names(ranking)[:2]) == {f"v{loud + 1}", f"v{loud + 2}" if loud < 62 else "y"}
    # Only what moves the outputs is looked at closely.
    assert sensitivity.runs < 40


@pytest.mark.parametrize(("runs", "seconds"), [(1000, 0.0), (0, 60.0), (16, 60.0)])
def test_out_of_time_or_runs_a_block_shares_its_error(
    runs: int, seconds: float, worker: Worker, tmp_path: pathlib.Path
) -> None:
    sensitivity = sensitivity_of(chain(64, loud=0), cancelled(X), worker, tmp_path)
    ranking = sensitivity.ranking(runs=runs, seconds=seconds)
    assert sensitivity.runs == 17
    assert len({node for node, _ in ranking}) == len(ranking) == 64
    assert set(names(ranking)[:4]) == {"v1", "v2", "v3", "v4"}
    [error] = sensitivity.errors([range(4)])
    assert [share for _, share in ranking[:4]] == pytest.approx([error / 2] * 4)


def test_blocks_are_split_until_the_runs_are_used_up(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    sensitivity = sensitivity_of(chain(64, loud=0), cancelled(X), worker, tmp_path)
    ranking = sensitivity.ranking(runs=18)
    assert sensitivity.runs == 19
    # The first block of four was split once.
    assert set(names(ranking)[:2]) == {"v1", "v2"}
    [error] = sensitivity.errors([range(2)])
    assert [share for _, share in ranking[:2]] == pytest.approx([error / 2**0.5] * 2)


def test_a_single_node_is_ranked_with_its_error(worker: Worker, tmp_path: pathlib.Path) -> None:
    sensitivity = sensitivity_of(chain(1), X, worker, tmp_path)
    [(node, error)] = sensitivity.ranking()
    assert node.outputs[0].name == "y"
    assert error == pytest.approx(judge_of(X)({"y": low(X)}))
    assert error > 0


def test_an_overflow_is_worse_than_anything(worker: Worker, tmp_path: pathlib.Path) -> None:
    text = """g (float[8] x) => (float[8] y) <float big = {30000}, float small = {0.001}> {
        a = Mul (x, big) b = Mul (a, a) y = Mul (b, small)
    }"""
    wanted = np.square(X * np.float32(30000)) * np.float32(0.001)

    def judge(outputs: Mapping[str, Value]) -> float:
        finite = np.isfinite(np.asarray(outputs["y"])).all()
        return judge_of(wanted)(outputs) if finite else math.inf

    model = ir.from_proto(onnx.parser.parse_model(HEADER + text))
    plan = make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC)
    sensitivity = Counted(Switched(model, plan), judge, worker, tmp_path)
    first, second, (_, third) = sensitivity.ranking()
    assert {first[0].outputs[0].name, second[0].outputs[0].name} == {"b", "y"}
    assert (first[1], second[1]) == (math.inf, math.inf)
    assert 0 < third < 1
