"""No labelling is cheaper than the plan's: all are tried, on thousands of graphs."""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32
from onnxcast.passes import AutocastPass, TidyPass
from onnxcast.pipeline import narrowing_passes
from onnxcast.planning import Bound, Group, Plan, Reason, cast_costs, make_plan
from onnxcast.planning.min_cut import SINK, SOURCE, MinCut
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC, Operand, Pair
from tests.planning.labellings import Costs, free_computing, graph, movers, use_ranks
from tests.planning.plans import load

# Beside the carriers asked for, a graph has an If, a Loop with a state, and an Identity in that.
HANDED = 4


def check_carriers(
    seed: int, carriers: int, *, ranks: bool = True, minimise: str = "bytes"
) -> None:
    model = graph(np.random.default_rng(seed), carriers, seed % 3)
    use_ranks(model, known=ranks)
    plan = planned(model, minimise)
    islands = [group.node for group in islands_of(plan)]
    by_count = minimise == "casts" or not ranks
    moving = movers(model)
    costs = Costs(model, moving, [], islands, by_count=by_count, tainting=True)
    narrow = {v for group, each in plan.narrow() if each.gives for v in group.result_values()}
    chosen = np.array([mover.results[0] in narrow for mover in moving], np.bool_)
    index = np.flatnonzero((costs.labels == chosen).all(axis=1)).item()
    assert costs.legal[index], seed
    best = costs.total[costs.legal].min()
    assert costs.total[index] == best, seed
    # Of the cheapest, the one with the fewest wide carriers, of which there is only one.
    cheapest = costs.labels[costs.legal & (costs.total == best)].sum(axis=1)
    assert chosen.sum() == cheapest.max(), seed
    assert (cheapest == cheapest.max()).sum() == 1, seed


def check_islands(seed: int, free: int, *, ranks: bool = True, minimise: str = "bytes") -> None:
    random = np.random.default_rng(seed)
    carriers = int(random.integers(0, free + 1))
    model = graph(random, carriers, free - carriers)
    use_ranks(model, known=ranks)
    islands = {group.node for group in islands_of(planned(model, minimise))}
    computing, moving = free_computing(model), movers(model)
    by_count = minimise == "casts" or not ranks
    costs = Costs(model, moving, computing, by_count=by_count)
    chosen = np.array([node not in islands for node in computing], np.bool_)
    best = costs.labels[costs.total == costs.total.min()][:, len(moving) :]
    assert (best == chosen).all(axis=1).any(), seed
    # Whatever else is as cheap leaves more of them wide.
    assert (best <= chosen).all(), seed


def planned(model: object, minimise: str) -> Plan:
    policy = make_policy(fp32_cast="all-fp16", narrow_ops=["Neg"], minimise=minimise)
    return make_plan(model, policy, GENERIC)  # type: ignore[arg-type] # an ir.Model


def islands_of(plan: Plan) -> list[Group]:
    return [group for group, each in plan.decisions.items() if each.reason is Reason.ISLAND]


@pytest.mark.parametrize("block", range(10))
def test_no_labelling_of_carriers_is_cheaper(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        check_carriers(seed, carriers=1 + seed % 6)


@pytest.mark.parametrize("block", range(10))
def test_no_choice_of_islands_is_cheaper(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        check_islands(seed, free=1 + seed % 6)


def test_the_fewest_casts_count_where_ranks_are_unknown_or_by_request() -> None:
    for seed in range(60):
        for ranks, minimise in ((False, "bytes"), (True, "casts")):
            check_carriers(seed, carriers=1 + seed % 6, ranks=ranks, minimise=minimise)
            check_islands(seed, free=1 + seed % 6, ranks=ranks, minimise=minimise)


@pytest.mark.parametrize("minimise", ["bytes", "casts"])
def test_the_bound_is_what_the_casts_of_the_result_cost(minimise: str) -> None:
    for seed in range(80):
        model = graph(np.random.default_rng(seed), 1 + seed % 6, seed % 5)
        policy = make_policy(fp32_cast="all-fp16", narrow_ops=["Neg"], minimise=minimise)
        autocast, *others = narrowing_passes(policy, GENERIC)
        assert isinstance(autocast, AutocastPass)
        for pass_ in (TidyPass(), autocast, *others):
            pass_(model)
        costs = cast_costs(model, GENERIC)
        found = {"bytes": costs.bytes, "casts": costs.casts}
        assert autocast.plan is not None
        assert autocast.plan.bound == Bound(found[minimise], minimise), seed


def test_a_bound_is_not_proven_minimal_beside_a_third_format() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) { h = MatMul (x, x) n = Neg (h) y = Abs (n) }"
    takes = Operand(FLOAT32, BFLOAT16, FLOAT16, "test")
    target = dataclasses.replace(
        GENERIC, operands=(takes,), pairs=(Pair(FLOAT16, FLOAT16, FLOAT32),)
    )
    plan = make_plan(load(text), make_policy(fp32_cast="all"), target)
    assert plan.bound is not None
    assert plan.bound.why_not == "some operands are float16"
    with_one = make_plan(load(text), make_policy(fp32_cast="all-fp16"), GENERIC)
    assert with_one.bound == Bound(4 * (2 + 4), "bytes")


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_labelling_of_more_groups_is_cheaper(block: int) -> None:
    for seed in range(1000 + block * 150, 1150 + block * 150):
        check_carriers(seed, carriers=6 + seed % 5)
        check_islands(seed, free=6 + seed % 5)


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
