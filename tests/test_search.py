"""Few pins by few trials, and pins for a while."""

import math
import random
from collections.abc import Mapping

import onnx.parser
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxcast.planning import PinLevel, pin, pin_level, pinned
from onnxcast.search import Search, allowed_trials, expected, pinned_only


class Planted:
    """An error that is over the limit of 1 by what is not pinned of some culprits.

    Args:
        count: How many nodes there are.
        culprits: The error of some; that of all others is 0.
    """

    def __init__(self, count: int, culprits: Mapping[int, float]) -> None:
        self.count, self.culprits = count, culprits
        self.tried: list[frozenset[int]] = []
        self.search = Search(count, self.error, 1.0)

    def error(self, pins: frozenset[int]) -> float:
        self.tried.append(pins)
        left = [error for node, error in self.culprits.items() if node not in pins]
        return math.sqrt(sum(error**2 for error in left))

    def ranking(self, seed: int | None = None) -> list[tuple[int, float]]:
        """The truth, or all nodes in any order."""
        order = list(range(self.count))
        if seed is None:
            order.sort(key=lambda node: -self.culprits.get(node, 0.0))
            return [(node, self.culprits.get(node, 0.0)) for node in order]
        random.Random(seed).shuffle(order)
        return [(node, 0.0) for node in order]

    def found(self, ranking: list[tuple[int, float]]) -> set[int]:
        number = self.search.fewest_of(ranking, frozenset())
        assert number is not None
        first = {node for node, _ in ranking[:number]}
        return self.search.minimal_of(first, [node for node, _ in reversed(ranking)])


@given(st.integers(1, 400), st.data())
def test_the_culprits_are_found_in_few_trials(count: int, data: st.DataObject) -> None:
    nodes = data.draw(st.sets(st.integers(0, count - 1), max_size=20))
    planted = Planted(count, dict.fromkeys(nodes, 2.0))
    assert planted.found(planted.ranking()) == nodes
    search = planted.search
    assert search.minimal
    assert search.monotone
    assert search.trials == len(planted.tried) == len(set(planted.tried))
    assert search.trials <= allowed_trials(count, len(nodes))


@given(st.integers(1, 300), st.integers(0, 9), st.data())
def test_a_bad_ranking_costs_no_more_trials_than_allowed(
    count: int, seed: int, data: st.DataObject
) -> None:
    nodes = data.draw(st.sets(st.integers(0, count - 1), max_size=20))
    planted = Planted(count, dict.fromkeys(nodes, 2.0))
    found, search = planted.found(planted.ranking(seed)), planted.search
    assert found >= nodes
    assert search.trials <= allowed_trials(count, len(found))
    assert found == nodes or not search.minimal


@given(st.lists(st.floats(0, 1.5), min_size=1, max_size=60))
def test_what_is_found_is_minimal(errors: list[float]) -> None:
    planted = Planted(len(errors), dict(enumerate(errors)))
    found = planted.found(planted.ranking())
    assert planted.error(frozenset(found)) <= 1
    if planted.search.minimal:
        for node in found:
            assert planted.error(frozenset(found - {node})) > 1


@given(st.integers(0, 500), st.integers(0, 501))
def test_the_smallest_number_is_found(count: int, needed: int) -> None:
    tried: list[frozenset[int]] = []

    def error(pins: frozenset[int]) -> float:
        tried.append(pins)
        return 0.5 if len(pins) >= needed else 2.0

    search = Search(1000, error, 1.0)
    number = search.fewest_of([(node, 2.0) for node in range(count)], frozenset())
    assert number == (needed if needed <= count else None)
    assert len(tried) <= 2 * math.log2(max(count, 1)) + 3


@pytest.mark.parametrize(
    ("errors", "number"),
    [
        ([], 0),
        ([0.5, 0.5], 0),
        ([2.0, 0.5], 1),
        ([math.inf, 2.0, 0.9, 0.4], 2),
        ([0.8, 0.8, 0.8], 2),
        ([math.nan, 0.1], 1),
    ],
)
def test_as_many_are_expected_as_independent_errors_ask_for(
    errors: list[float], number: int
) -> None:
    assert expected(list(enumerate(errors)), 1.0) == number


def test_a_good_guess_costs_two_trials() -> None:
    planted = Planted(1000, dict.fromkeys(range(3), 2.0))
    ranking = planted.ranking()
    start = expected(ranking, 1.0)
    assert planted.search.fewest_of(ranking, frozenset(), start=start) == 3
    assert [len(pins) for pins in planted.tried] == [3, 2]


@given(st.sets(st.integers(0, 39), min_size=4, max_size=12), st.integers(0, 9))
def test_trials_of_single_pins_mend_a_bad_order(nodes: set[int], seed: int) -> None:
    planted = Planted(40, {node: 0.5 + 0.1 * (node % 9) for node in nodes})
    pins = set(range(40))
    order = [node for node, _ in planted.ranking(seed)]
    kept = planted.search.minimal_of(pins, order, singly=True)
    assert planted.error(frozenset(kept)) <= 1
    search = planted.search
    assert search.trials <= allowed_trials(40, len(kept))
    if search.minimal:
        assert all(planted.error(frozenset(kept - {node})) > 1 for node in kept)


def test_few_are_found_by_doubling_and_bisection() -> None:
    planted = Planted(1000, dict.fromkeys(range(3), 2.0))
    assert planted.search.fewest_of(planted.ranking(), frozenset()) == 3
    assert [len(pins) for pins in planted.tried] == [0, 1, 2, 4, 3]


def test_pins_that_raise_the_error_are_noticed() -> None:
    def error(pins: frozenset[int]) -> float:
        # Two roundings that cancel: either alone is worse than both.
        return {frozenset(): 3.0, frozenset({0}): 0.5, frozenset({0, 1}): 2.0}.get(pins, 0.4)

    search = Search(4, error, 1.0)
    assert search.passes({0})
    assert search.monotone
    assert not search.passes({0, 1})
    assert not search.monotone


def test_noise_is_no_sign() -> None:
    search = Search(4, lambda pins: 0.5 + 0.01 * len(pins), 1.0)
    for count in range(4):
        assert search.passes(set(range(count)))
    assert search.monotone


def test_out_of_time_the_last_set_that_passed_is_kept() -> None:
    planted = Planted(64, {5: 2.0})
    planted.search = Search(64, planted.error, 1.0, lambda: len(planted.tried) < 3)
    ranking = planted.ranking(seed=0)
    number = planted.search.fewest_of(ranking, frozenset())
    assert number is not None
    pins = {node for node, _ in ranking[:number]}
    assert 5 in pins
    kept = planted.search.minimal_of(pins, [node for node, _ in ranking])
    assert kept == pins
    assert not planted.search.minimal


def test_another_limit_forgets_what_was_known() -> None:
    planted = Planted(8, {0: 0.8})
    assert planted.search.passes(set())
    planted.search.forget(0.5)
    assert not planted.search.passes(set())
    assert planted.search.trials == len(planted.tried) == 2


CHAIN = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) {
    a = Abs (x) b = Neg (a) c = Exp (b) y = Tanh (c)
}"""


def nodes() -> list[ir.Node]:
    return list(ir.from_proto(onnx.parser.parse_model(CHAIN)).graph)


def pins(each: list[ir.Node]) -> list[tuple[str, PinLevel]]:
    return [(pinned(node), pin_level(node)) for node in each]


@pytest.mark.parametrize("level", [PinLevel.WEIGHTS, PinLevel.WIDE])
def test_nodes_are_pinned_for_a_while(level: PinLevel) -> None:
    chain = nodes()
    before = pins(chain)
    with pinned_only({chain[0]: ("first", level), chain[2]: ("third", level)}):
        assert [each for _, each in pins(chain)] == [
            level,
            PinLevel.NONE,
            level,
            PinLevel.NONE,
        ]
        assert pinned(chain[0]).startswith("first")
        assert pinned(chain[2]).startswith("third")
    assert pins(chain) == before
    assert not any(node.metadata_props for node in chain)


def test_a_known_pin_keeps_its_figure_and_is_only_widened() -> None:
    chain = nodes()
    pin(chain[0], "known")
    pin(chain[1], "known")
    pin(chain[2], "known", PinLevel.WIDE)
    before = pins(chain)
    wanted = {
        chain[0]: ("new", PinLevel.WEIGHTS),
        chain[1]: ("new", PinLevel.WIDE),
        chain[2]: ("new", PinLevel.WEIGHTS),
        chain[3]: ("new", PinLevel.WIDE),
    }
    with pinned_only(wanted):
        found = pins(chain)
        assert found[0] == before[0]
        assert found[1] == before[2]
        assert found[2] == before[2]
        assert found[3][0].startswith("new")
        assert found[3][1] is PinLevel.WIDE
    assert pins(chain) == before


def test_pins_go_after_an_exception_too() -> None:
    chain = nodes()
    pin(chain[0], "known")
    before = pins(chain)
    wide = dict.fromkeys(chain, ("new", PinLevel.WIDE))

    def fail_inside() -> None:
        with pinned_only(wide):
            assert {level for _, level in pins(chain)} == {PinLevel.WIDE}
            raise KeyError("trouble")

    with pytest.raises(KeyError, match="trouble"):
        fail_inside()
    assert pins(chain) == before


def test_pins_may_be_nested() -> None:
    chain = nodes()
    outer, inner = ("outer", PinLevel.WEIGHTS), ("inner", PinLevel.WIDE)
    with pinned_only({chain[0]: outer}):
        between = pins(chain)
        with pinned_only({chain[0]: inner, chain[1]: inner}):
            assert [level for _, level in pins(chain)][:2] == [PinLevel.WIDE, PinLevel.WIDE]
        assert pins(chain) == between
    assert {level for _, level in pins(chain)} == {PinLevel.NONE}
