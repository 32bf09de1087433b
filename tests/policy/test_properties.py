"""Every row of the table of properties is proved by running its op in float32, rounded by Casts."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime
import pytest

from onnxcast import formats
from onnxcast.formats import (
    BFLOAT16,
    FLOAT4E2M1,
    FLOAT6E3M2,
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    FLOAT16,
    INT8,
    STRING,
    Format,
)
from onnxcast.policy import (
    MEANINGS,
    PROPERTIES,
    Meaning,
    Properties,
    commutes,
    is_closed,
)
from tests.policy.examples import EXAMPLES, SCATTER_ND_ADD, Example
from tests.policy.test_meanings import run

OLD_MAX_POOL = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 29)

Array = npt.NDArray[Any]
Rounding = Callable[[Array], Array]

# Constants are numbers of every format.
SUBJECTS: Mapping[str, Example] = {
    "Relu": Example("Relu (x)"),
    "Clip": Example("Clip (x, l, h)", constants="float l = {-4}, float h = {4}"),
    "ReduceMax": Example("ReduceMax (x)"),
    "ReduceMin": Example("ReduceMin (x)"),
    "MaxPool": Example(
        "MaxPool <kernel_shape = [2, 2], pads = [1, 1, 0, 0]> (x)", x="1,1,4,4", results="y, y2"
    ),
    "GlobalMaxPool": Example("GlobalMaxPool (x)", x="1,1,4,4"),
    "TopK": Example("TopK (x, s)", x="16", constants="int64[1] s = {5}", results="y, y2"),
    "Pad": Example("Pad (x, s, v)", constants="int64[4] s = {1, 0, 0, 2}, float v = {1}"),
}


def subject(op: str) -> Example:
    return SUBJECTS.get(op) or EXAMPLES[op]


def to_int8(values: Array) -> Array:
    """A Cast to int8 of numbers in its range, which has no negative zero."""
    return np.trunc(values).astype(np.float32) + np.float32(0)


def rounding(format_: Format, saturates: bool) -> Rounding:
    return lambda values: formats.round_to(values, format_, saturate=saturates)


NUMBERS = (FLOAT16, BFLOAT16, FLOAT8E4M3FN, FLOAT8E5M2)
OTHERS = [
    each
    for each in (FLOAT8E4M3FNUZ, FLOAT8E5M2FNUZ, FLOAT4E2M1, FLOAT6E3M2)
    if each.dtype is not None  # earlier versions of onnx_ir lack float6
]


def cases(op: str, format_: Format, seed: int = 0) -> Iterator[tuple[Array, Array | None]]:
    """Operands of special values, ties, subnormals, zeros and numbers that overflow."""
    example, values = subject(op), pool(format_)
    generator = np.random.default_rng(seed)
    for _ in range(60):
        w = generator.choice(values, example.shape("w")) if example.w else None
        yield generator.choice(values, example.shape("x")), w


@np.errstate(over="ignore")
def pool(format_: Format) -> Array:
    if format_ == INT8:
        return np.array([-128, -127.5, -1.5, -1, -0.5, 0, 0.5, 1, 2.5, 126.9, 127], np.float32)
    step = 2.0 ** (1 - format_.significand)
    near_one = (1, 1 + step / 2, 1 + 3 * step / 2, 2 - step / 2, 0.3, 0.7, 2.5, 3.5)
    small = (2.0**format_.quantum * factor for factor in (0.5, 1, 1.5))
    large = (format_.max * factor for factor in (1, 1.001, 1.1))
    numbers = (0, 1e-45, 1e-9, 4, 3e38, np.inf, *near_one, *small, *large)
    both = [sign * number for sign in (1.0, -1.0) for number in numbers]
    return np.array([*both, np.nan], np.float32)


def bits(values: Array) -> Array:
    """Bits of float32 numbers, of all NaN the same; other types (indices) as they are."""
    if values.dtype != np.float32:
        return values
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def rounded(values: Array, to_narrow: Rounding) -> Array:
    return bits(to_narrow(values) if values.dtype == np.float32 else values)


def is_closed_on(example: Example, x: Array, w: Array | None, to_narrow: Rounding) -> bool:
    results = run(example, to_narrow(x), None if w is None else to_narrow(w))
    return all(np.array_equal(rounded(each, to_narrow), bits(each)) for each in results)


def commutes_on(example: Example, x: Array, w: Array | None, to_narrow: Rounding) -> bool:
    before = run(example, to_narrow(x), None if w is None else to_narrow(w))
    after = run(example, x, w)
    pairs = zip(after, before, strict=True)
    return all(np.array_equal(rounded(a, to_narrow), bits(b)) for a, b in pairs)


def roundings(row: Properties) -> Iterator[tuple[Format, Rounding]]:
    """What `row` is proved for: what it moves in any format, what it computes in full floats."""
    for format_ in (*NUMBERS, *(OTHERS if row.moves else ())):
        for saturates in (True, False) if format_.bits == 8 else (True,):
            yield format_, rounding(format_, saturates)
    if row.moves:
        yield INT8, to_int8


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.op)
def test_a_closed_op_gives_numbers_of_the_format_for_such(row: Properties) -> None:
    if row.op == "MaxPool" and OLD_MAX_POOL:
        pytest.skip("before 1.29 onnxruntime's MaxPool makes the lowest number of -inf")
    for format_, to_narrow in roundings(row):
        assert is_closed(subject(row.op).subject(), format_)
        for x, w in cases(row.op, format_):
            assert is_closed_on(subject(row.op), x, w, to_narrow), (format_, x, w)


@pytest.mark.parametrize("row", [row for row in PROPERTIES if row.commutes], ids=lambda row: row.op)
def test_a_commuting_op_gives_the_same_before_and_behind_a_cast(row: Properties) -> None:
    for format_, to_narrow in roundings(row):
        assert commutes(subject(row.op).subject(), format_)
        for x, w in cases(row.op, format_):
            assert commutes_on(subject(row.op), x, w, to_narrow), (format_, x, w)


# Where an op does not commute. Pairs of what is, or becomes, a zero of either sign; and ties.
ZEROS = np.array(list(itertools.product([0, -0.0, 1e-9, -1e-9], repeat=2)), np.float32)
LEFT, RIGHT = ZEROS[:, 0].copy(), ZEROS[:, 1].copy()
REDUCED = "<keepdims = 0> (x, s)"
WITNESSES: Mapping[str, tuple[Example, Array, Array | None]] = {
    "Relu": (Example("Relu (x)", x="16"), LEFT, None),
    "Max": (Example("Max (x, w)", x="16", w="16"), LEFT, RIGHT),
    "Min": (Example("Min (x, w)", x="16", w="16"), LEFT, RIGHT),
    "Clip": (Example("Clip (x, l)", x="16", constants="float l = {0}"), LEFT, None),
    "Where": (
        Example("Where (s, x, w)", x="16", w="16", constants="bool s = {1}"),
        LEFT,
        RIGHT,
    ),
    "Sign": (Example("Sign (x)", x="16"), LEFT, None),
    "Floor": (Example("Floor (x)", x="16"), LEFT, None),
    "Ceil": (Example("Ceil (x)", x="16"), LEFT, None),
    "Round": (Example("Round (x)", x="1"), np.array([0.5000001], np.float32), None),
    "ReduceMax": (
        Example(f"ReduceMax {REDUCED}", x="16,2", constants="int64[1] s = {1}"),
        ZEROS,
        None,
    ),
    "ReduceMin": (
        Example(f"ReduceMin {REDUCED}", x="16,2", constants="int64[1] s = {1}"),
        ZEROS,
        None,
    ),
    "MaxPool": (
        Example("MaxPool <kernel_shape = [2]> (x)", x="1,1,2", results="y, y2"),
        np.array([[[1, 1.0001]]], np.float32),
        None,
    ),
    "GlobalMaxPool": (
        Example("GlobalMaxPool (x)", x="1,16,2"),
        ZEROS.reshape(1, 16, 2),
        None,
    ),
    "TopK": (
        Example("TopK (x, s)", x="2", constants="int64[1] s = {1}", results="y, y2"),
        np.array([1, 1.0001], np.float32),
        None,
    ),
}


@pytest.mark.parametrize("row", [r for r in PROPERTIES if not r.commutes], ids=lambda row: row.op)
def test_what_is_not_said_to_commute_has_operands_on_which_it_does_not(row: Properties) -> None:
    example, x, w = WITNESSES[row.op]
    assert not commutes(example.subject(), FLOAT16)
    assert not commutes_on(example, x, w, rounding(FLOAT16, True))


@pytest.mark.parametrize("op", ["Add", "Mul", "Sqrt", "Exp", "Softmax", "MatMul"])
def test_arithmetic_is_not_closed(op: str) -> None:
    example = EXAMPLES[op]
    x = np.linspace(1, 2, np.prod(example.shape("x")), dtype=np.float32)
    w = None if not example.w else np.linspace(3, 4, np.prod(example.shape("w")), dtype=np.float32)
    w = None if w is None else w.reshape(example.shape("w"))
    assert not is_closed(example.subject(), FLOAT16)
    assert not is_closed_on(example, x.reshape(example.shape("x")), w, rounding(FLOAT16, True))


def test_all_data_movement_is_closed_and_nothing_else_moves() -> None:
    carriers = {row.op for row in MEANINGS if row.meaning is Meaning.CARRIER}
    assert {row.op for row in PROPERTIES if row.moves} == carriers
    assert len(PROPERTIES) == len({row.op for row in PROPERTIES})


def test_a_scatter_that_adds_is_neither() -> None:
    assert not is_closed(SCATTER_ND_ADD.subject(), FLOAT16)


def test_a_pad_whose_value_is_an_attribute_is_neither() -> None:
    node = ir.node("Pad", [ir.Value(name="x")], {"pads": [0, 1], "value": 0.1})
    assert not is_closed(node, FLOAT16)


@pytest.mark.parametrize("format_", [STRING, FLOAT8E8M0], ids=str)
def test_nothing_moves_where_there_is_no_zero_to_fill_up_with(format_: Format) -> None:
    assert not is_closed(EXAMPLES["Pad"].subject(), format_)


@pytest.mark.parametrize("format_", [INT8, FLOAT8E4M3FNUZ, FLOAT4E2M1], ids=str)
def test_no_sign_flips_in_a_format_without_negative_zero_or_nan(format_: Format) -> None:
    assert not is_closed(EXAMPLES["Neg"].subject(), format_)


@pytest.mark.parametrize("format_", [FLOAT8E4M3FNUZ, FLOAT4E2M1], ids=str)
def test_a_negation_leaves_or_misses_such_a_format(format_: Format) -> None:
    x, to_narrow = np.array([0.0, np.nan] * 4, np.float32), rounding(format_, saturates=True)
    closed = is_closed_on(EXAMPLES["Neg"], x, None, to_narrow)
    assert not (closed and commutes_on(EXAMPLES["Neg"], x, None, to_narrow))
