"""No labelling of carriers is cheaper than the plan's: all are tried, on thousands of graphs."""

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from onnxcast.graph.walk import model_graphs, values
from onnxcast.planning import Plan, make_plan
from onnxcast.planning.min_cut import SINK, SOURCE, MinCut
from onnxcast.policy import make_policy
from onnxcast.targets import get_target
from tests.planning.plans import load

CARRIERS = ("Identity", "Transpose", "Concat")
DOWN, UP = 16, 32

Labels = npt.NDArray[np.bool_]


def text(random: np.random.Generator, carriers: int) -> str:
    """A graph of carriers between Neg, which is narrow, and Floor, which is wide, and a branch."""
    made, left = ["x", "y"], carriers
    lines: list[str] = []
    while left or len(lines) < carriers + 4:
        kind = str(random.choice([*CARRIERS, "Neg", "Floor"] if left else ["Neg", "Floor"]))
        left -= kind in CARRIERS
        operands = random.choice(made[-6:], 2 if kind == "Concat" else 1)
        name = f"v{len(made)}"
        axis = " <axis = 0>" if kind == "Concat" else ""
        lines.append(f"{name} = {kind}{axis} ({', '.join(operands)})")
        made.append(name)
    outputs = {str(each) for each in random.choice(made[2:], 2)} | {made[-1]}
    inner = random.choice(made, 2)
    branch = "{ i = Identity (%s) o = %s (i) }"
    then, other = (branch % (each, random.choice(["Neg", "Floor"])) for each in inner)
    lines.append(
        f"c = If (b) <then_branch = t () => (float[4] o) {then}, "
        f"else_branch = e () => (float[4] o) {other}>"
    )
    declared = ", ".join(f"float[4] {name}" for name in (*sorted(outputs), "c"))
    return f"g (float[4] x, float[4] y, bool b) => ({declared}) {{ {' '.join(lines)} }}"


def sized(model: ir.Model, random: np.random.Generator) -> ir.Model:
    for graph in model_graphs(model):
        for value in values(graph):
            value.shape = ir.Shape([int(random.choice([1, 2, 4, 7]))])
    return model


class Costs:
    """Prices of all labellings at once, by no code of the plan's: True is narrow."""

    def __init__(self, plan: Plan, model: ir.Model, by_count: bool) -> None:
        groups = [group for group in plan.decisions if group.node.op_type in CARRIERS]
        self.free = [group.node for group in groups]
        self._labels = np.array(
            list(itertools.product([False, True], repeat=len(self.free))), np.bool_
        ).reshape(-1, len(self.free))
        self._column = {node: self._labels[:, i] for i, node in enumerate(self.free)}
        self._by_count = by_count
        constant = np.ones(len(self._labels), np.bool_)
        self.total = np.zeros(len(self._labels), np.int64)
        self.legal = constant.copy()
        for graph in model_graphs(model):
            for value in values(graph):
                if value.type is not None and value.type.dtype == ir.DataType.BOOL:
                    continue
                self._add(value, constant)

    def _add(self, value: ir.Value, constant: Labels) -> None:
        producer = self._label(value.producer(), constant)
        readers = [self._label(node, constant) for node, _ in value.uses()]
        if value.is_graph_output():
            readers.append(~constant)
        if not readers:  # what nobody reads follows what it reads
            if self._is_tainted(value.producer()):
                self.legal &= ~producer
            return
        some_wide = np.any([~each for each in readers], axis=0)
        some_narrow = np.any(readers, axis=0)
        elements = 1 if self._by_count else int(value.shape[0])  # type: ignore[index,arg-type] # set
        down, up = (1, 1) if self._by_count else (DOWN, UP)
        self.total += np.where(producer & some_wide, elements * up, 0)
        self.total += np.where(~producer & some_narrow, elements * down, 0)
        if self._is_tainted(value.producer()):
            self.legal &= ~(producer & some_wide)

    def _label(self, node: ir.Node | None, constant: Labels) -> Labels:
        if node in self._column:
            return self._column[node]
        return constant if node is not None and node.op_type == "Neg" else ~constant

    def _is_tainted(self, node: ir.Node | None) -> bool:
        if node is None or node not in self._column:
            return False
        return any(
            value is None
            or (value.producer() not in self._column and not _is_narrow(value.producer()))
            or self._is_tainted(value.producer())
            for value in node.inputs
        )


def _is_narrow(node: ir.Node | None) -> bool:
    return node is not None and node.op_type == "Neg"


def check(seed: int, carriers: int, *, by_count: bool = False) -> None:
    random = np.random.default_rng(seed)
    model = load(text(random, carriers))
    if not by_count:
        model = sized(model, random)
    plan = make_plan(model, make_policy(fp32_cast="all-fp16"), get_target("generic"))
    costs = Costs(plan, model, by_count)
    chosen = {group.node: not each.is_wide for group, each in plan.decisions.items()}
    index = int("".join("01"[chosen[node]] for node in costs.free) or "0", 2)
    assert costs.legal[index], seed
    best = costs.total[costs.legal].min()
    assert costs.total[index] == best, seed
    # Of the cheapest, the one with the fewest wide carriers, of which there is only one.
    cheapest = np.flatnonzero(costs.legal & (costs.total == best)).tolist()
    narrow = [each.bit_count() for each in cheapest]
    assert index.bit_count() == max(narrow), seed
    assert narrow.count(max(narrow)) == 1, seed


@pytest.mark.parametrize("block", range(10))
def test_no_labelling_is_cheaper(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        check(seed, carriers=1 + seed % 7)


def test_no_labelling_has_fewer_casts_where_ranks_are_unknown() -> None:
    for seed in range(100):
        model = load(text(np.random.default_rng(seed), 1 + seed % 7))
        for graph in model_graphs(model):
            for value in values(graph):
                if not (value.is_graph_input() or value.is_graph_output()):
                    value.shape = None
        check(seed, carriers=1 + seed % 7, by_count=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_labelling_of_more_carriers_is_cheaper(block: int) -> None:
    for seed in range(1000 + block * 200, 1200 + block * 200):
        check(seed, carriers=6 + seed % 7)


def cuts(edges: dict[tuple[int, int], int], count: int) -> Iterator[tuple[int, set[int]]]:
    for sides in itertools.product([False, True], repeat=count - 2):
        side = {SOURCE, *(2 + i for i, inside in enumerate(sides) if inside)}
        yield sum(c for (a, b), c in edges.items() if a in side and b not in side), side


@pytest.mark.parametrize("seed", range(60))
def test_a_minimum_cut_is_the_smallest_of_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 9))
    network, edges = MinCut(), dict[tuple[int, int], int]()
    nodes = [SOURCE, SINK, *(network.node() for _ in range(count - 2))]
    for _ in range(3 * count):
        start, end = (int(each) for each in random.choice(nodes, 2, replace=False))
        capacity = int(random.integers(0, 5)) * (2**30 if seed % 3 == 0 else 1)
        network.edge(start, end, capacity)
        edges[start, end] = edges.get((start, end), 0) + capacity
    best = min(cost for cost, _ in cuts(edges, count))
    side = network.solve()
    assert sum(c for (a, b), c in edges.items() if a in side and b not in side) == best
    smallest = [each for cost, each in cuts(edges, count) if cost == best]
    assert side == set.intersection(*smallest)
    assert network.exact or sum(edges.values()) > 2**30


def test_what_is_forbidden_is_not_cut() -> None:
    network = MinCut()
    a, b = network.node(), network.node()
    network.forbid(SOURCE, a)
    network.edge(a, b, 1000)
    network.edge(b, SINK, 10**12)
    assert network.solve() == {SOURCE, a}
    network.forbid(a, b)
    assert network.solve() == {SOURCE, a, b}
