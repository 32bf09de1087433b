"""Numbers to try, the fewest first, and pins for a while."""

import itertools

import onnx.parser
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxcast.planning import PinLevel, pin, pin_level, pinned
from onnxcast.search import fewest, growing, pinned_only


@given(st.integers(0, 500), st.integers(0, 501))
def test_the_smallest_accepted_number_is_found(count: int, needed: int) -> None:
    tried: list[int] = []

    def attempt(size: int) -> bool:
        tried.append(size)
        return size >= needed

    assert fewest(count, attempt) == (needed if needed <= count else None)
    assert len(tried) <= 20
    assert len(set(tried)) == len(tried)
    assert all(0 <= size <= count for size in tried)


@given(st.integers(0, 200), st.sets(st.integers(0, 200)))
def test_what_is_found_was_accepted(count: int, accepted: set[int]) -> None:
    tried: list[int] = []

    def attempt(size: int) -> bool:
        tried.append(size)
        return size in accepted

    found = fewest(count, attempt)
    if count in accepted:
        assert found in accepted
        assert found in tried
    else:
        assert found is None
        assert tried == [count]


def test_few_are_found_in_few_attempts() -> None:
    tried: list[int] = []

    def attempt(size: int) -> bool:
        tried.append(size)
        return size >= 3

    assert fewest(1000, attempt) == 3
    assert tried == [1000, 0, 1, 2, 4, 3]


@pytest.mark.parametrize(("accepts", "found"), [(True, 0), (False, None)])
def test_without_candidates_only_nothing_is_tried(accepts: bool, found: int | None) -> None:
    tried: list[int] = []

    def attempt(size: int) -> bool:
        tried.append(size)
        return accepts

    assert fewest(0, attempt) == found
    assert tried == [0]


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_numbers_grow_by_a_quarter_up_to_the_count(first: int, count: int) -> None:
    numbers = list(growing(first, count))
    assert numbers[0] == min(first, count)
    assert numbers[-1] == count
    for size, following in itertools.pairwise(numbers):
        assert size < following <= size + max(1, size // 4)
    assert len(numbers) <= 40


def test_numbers_grow_from_nothing() -> None:
    assert list(growing(0, 3)) == [0, 1, 2, 3]
    assert list(growing(8, 14)) == [8, 10, 12, 14]


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
