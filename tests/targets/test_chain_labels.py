"""Chains are what their labels say: executed over all values, or strides and boundaries."""

import functools
import itertools

import numpy as np
import pytest

from onnxcast.formats import (
    BFLOAT16,
    BOOL,
    FLOAT8E4M3FN,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT64,
    STRING,
    Format,
    Kind,
)
from onnxcast.targets import Chain, Chains, NativeCast, Target, get_target
from tests.targets.conversions import Array, all_values, cast, is_defined


def chains(*, exact_bridges: bool) -> list[Chain]:
    found = []
    for name in ("ascend910b", "ascend950"):
        target = get_target(name)
        known = Chains(target, exact_bridges=exact_bridges)
        pairs = [(a, b) for a in target.converted for b in target.converted if a != b]
        found += [chain for pair in pairs if (chain := known.find(*pair)) is not None]
    return list({chain.path: chain for chain in found}.values())


NATIVE = chains(exact_bridges=False)
EXACT = [chain for chain in chains(exact_bridges=True) if chain not in NATIVE]


@functools.cache
def values(source: Format) -> Array:
    return all_values(source)


@functools.cache
def differing(chain: Chain) -> tuple[int, int]:
    """How many values a chain converts differently from one Cast, in range and beyond it."""
    source, *_, target = chain.path
    given = values(source)
    if source.kind is Kind.FLOAT and target.kind is not Kind.FLOAT:
        given = given[is_defined(given, target)]
    direct, stepwise = cast(given, target), given
    for following in chain.path[1:]:
        # What a step leaves undefined is in no label: ONNX defines nothing to compare with.
        defined = is_defined(stepwise, following)
        stepwise = cast(np.where(defined, stepwise, 0), following)
    same = np.array(
        [a == b or (a != a and b != b) for a, b in zip(direct, stepwise, strict=True)]  # noqa: PLR0124 - NaN
    )
    inside = np.array([float(target.min) <= float(each) <= float(target.max) for each in given])
    return int((~same & inside).sum()), int((~same & ~inside).sum())


def name(chain: Chain) -> str:
    return str(chain)


def with_label(label: str, *others: Chain) -> list[Chain]:
    return [chain for chain in (*NATIVE, *others) if label in chain.labels]


def test_our_conversions_are_those_of_the_storage_types() -> None:
    given = values(get_target("a5").converted[0])
    with np.errstate(all="ignore"):
        for target in (FLOAT16, BFLOAT16):
            assert target.dtype is not None
            wanted = given.astype(np.float32).astype(target.dtype.numpy()).astype(np.float64)
            np.testing.assert_array_equal(cast(given, target), wanted)
        assert FLOAT8E4M3FN.dtype is not None
        inside = given[np.abs(given) <= 448]
        wanted = inside.astype(np.float32).astype(FLOAT8E4M3FN.dtype.numpy()).astype(np.float64)
        np.testing.assert_array_equal(cast(inside, FLOAT8E4M3FN), wanted)


@pytest.mark.parametrize("chain", with_label("exact", *EXACT), ids=name)
def test_an_exact_chain_equals_one_cast_on_all_values(chain: Chain) -> None:
    assert chain.labels == {"exact"}
    assert differing(chain) == (0, 0)


@pytest.mark.parametrize("chain", with_label("single rounding"), ids=name)
def test_a_chain_that_rounds_once_equals_one_cast_on_all_values(chain: Chain) -> None:
    assert chain.labels == {"single rounding"}
    assert differing(chain) == (0, 0)


@pytest.mark.parametrize("chain", with_label("double rounding"), ids=name)
def test_a_chain_that_rounds_twice_has_a_witness(chain: Chain) -> None:
    assert differing(chain)[0] > 0


@pytest.mark.parametrize("chain", with_label("wraps differently"), ids=name)
def test_a_chain_that_wraps_differently_has_a_witness(chain: Chain) -> None:
    within, beyond = differing(chain)
    assert beyond > 0
    assert (within > 0) == ("double rounding" in chain.labels)


def test_every_chain_has_one_of_the_labels() -> None:
    for chain in (*NATIVE, *EXACT):
        assert len(chain.labels & {"exact", "single rounding", "double rounding"}) <= 1
        assert chain.labels
    assert all(chain.labels == {"exact"} for chain in EXACT)


@pytest.mark.parametrize(
    ("value", "chain", "stepwise", "direct"),
    [
        # Seed: the first hop rounds above 2**24, here onto a tie of bfloat16.
        (2**24 + 2**16 + 1, "int32 > float32 > bfloat16", 2.0**24, 2.0**24 + 2**17),
        (108.99247, "float32 > float16 > int8", 109, 108),
    ],
)
def test_known_witnesses(value: float, chain: str, stepwise: float, direct: float) -> None:
    (path,) = {each.path for each in NATIVE if str(each) == chain}
    given = np.array([value], object if isinstance(value, int) else np.float64)
    found = given
    for following in path[1:]:
        found = cast(found, following)
    assert (found[0], cast(given, path[-1])[0]) == (stepwise, direct)


def test_no_chain_goes_through_bool_or_ends_in_text() -> None:
    numbers = (INT8, BOOL, FLOAT32, INT64, STRING, FLOAT8E4M3FN, FLOAT64)
    casts = tuple(NativeCast(a, b) for a, b in itertools.pairwise(numbers))
    known = Chains(Target(name="odd", preferred=FLOAT16, casts=casts), exact_bridges=True)
    assert known.find(INT8, FLOAT32) is None
    assert known.find(FLOAT32, STRING) is None
    only = (NativeCast(INT8, FLOAT8E4M3FN), NativeCast(FLOAT8E4M3FN, FLOAT64))
    chain = Chains(Target(name="odd", preferred=FLOAT16, casts=only)).find(INT8, FLOAT64)
    assert chain is not None
    assert chain.labels == {"double rounding"}
