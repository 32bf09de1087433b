"""A target is found by name and tells the operand types of a matmul."""

import dataclasses

import pytest

from onnxcast.errors import InputError
from onnxcast.formats import BFLOAT16, FLOAT8E4M3FN, FLOAT16, FLOAT32, FLOAT64, Format
from onnxcast.targets import GENERIC, Target, get_target, target_names


def test_every_listed_target_is_found_by_its_name() -> None:
    assert "generic" in target_names()
    assert target_names() == sorted(target_names())
    for name in target_names():
        assert get_target(name).name == name


def test_none_means_generic_and_a_target_is_itself() -> None:
    mine = dataclasses.replace(GENERIC, name="mine")
    assert get_target(None) is GENERIC
    assert get_target(mine) is mine
    assert get_target("generic") == GENERIC


@pytest.mark.parametrize(("name", "hint"), [("generc", "did you mean generic?"), ("zzz", "")])
def test_an_unknown_name_is_an_error_that_lists_the_known(name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        get_target(name)
    text = str(caught.value)
    assert repr(name) in text
    assert hint in text
    assert "\n" not in text
    for known in target_names():
        assert known in text


def test_the_generic_target_prefers_float16() -> None:
    assert GENERIC.preferred == FLOAT16


@pytest.mark.parametrize(
    ("given", "wanted", "answer"),
    [
        (FLOAT32, FLOAT16, FLOAT16),
        (FLOAT32, BFLOAT16, BFLOAT16),
        (FLOAT32, FLOAT8E4M3FN, FLOAT8E4M3FN),
        (FLOAT64, FLOAT16, FLOAT16),
        (FLOAT16, BFLOAT16, FLOAT16),
        (BFLOAT16, FLOAT16, BFLOAT16),
        (FLOAT16, FLOAT16, FLOAT16),
        (FLOAT8E4M3FN, FLOAT16, FLOAT8E4M3FN),
    ],
)
def test_a_wide_operand_becomes_what_is_wanted_and_a_narrow_one_stays(
    given: Format, wanted: Format, answer: Format
) -> None:
    assert GENERIC.matmul_operand_type(given, wanted) == answer


@pytest.mark.parametrize(
    ("first", "second", "pair"),
    [
        (FLOAT16, FLOAT16, FLOAT16),
        (FLOAT16, FLOAT32, FLOAT32),
        (FLOAT32, BFLOAT16, FLOAT32),
        (FLOAT8E4M3FN, FLOAT16, FLOAT16),
    ],
)
def test_a_pair_is_made_legal_by_the_wider_type(
    first: Format, second: Format, pair: Format
) -> None:
    assert GENERIC.matmul_operand_pair(first, second) == (pair, pair)


def test_a_pair_of_types_that_do_not_contain_one_another_meets_in_one_that_contains_both() -> None:
    assert GENERIC.matmul_operand_pair(FLOAT16, BFLOAT16) == (FLOAT32, FLOAT32)
    assert GENERIC.matmul_operand_pair(BFLOAT16, FLOAT16) == (FLOAT32, FLOAT32)


def test_targets_are_plain_values() -> None:
    assert Target(name="a", preferred=BFLOAT16) == Target(name="a", preferred=BFLOAT16)
    assert hash(GENERIC) == hash(dataclasses.replace(GENERIC))
