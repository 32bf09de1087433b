"""Every row of the table of meanings is proved by running a node that it is about."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from onnxcast import formats
from onnxcast.formats import BFLOAT16, FLOAT16
from onnxcast.graph.walk import op_name
from onnxcast.policy import MEANINGS, Meaning, Row, has_meaning, multiplied
from tests.policy.examples import (
    COUNTER_EXAMPLES,
    EXAMPLES,
    SAFE_EXP,
    SCATTER_ADD,
    SCATTER_ND_ADD,
    SQUARE,
    SUBJECTS,
    Example,
)

Array = npt.NDArray[Any]


@functools.cache
def runner(example: Example) -> Any:
    proto = example.proto()
    if example.reference:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(proto)
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def run(example: Example, x: Array, w: Array | None = None) -> list[Array]:
    feeds = {"x": x} | ({} if w is None else {"w": w})
    return [np.asarray(result) for result in runner(example).run(None, feeds)]


def rows(meaning: Meaning) -> list[str]:
    return [row.op for row in MEANINGS if row.meaning is meaning]


def subject(op: str, meaning: Meaning) -> Example:
    return SUBJECTS.get((op, meaning), EXAMPLES[op])


def data(example: Example, name: str = "x", *, seed: int = 0) -> Array | None:
    if name == "w" and not example.w:
        return None
    values = np.random.default_rng(seed).normal(size=example.shape(name))
    return values.astype(np.float32)


def operand(example: Example, *, seed: int = 0) -> Array:
    values = data(example, seed=seed)
    assert values is not None
    return values


def bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint32)


def test_every_row_has_an_example_and_every_example_a_row() -> None:
    assert {row.op for row in MEANINGS} == set(EXAMPLES)


def test_no_row_is_listed_twice() -> None:
    pairs = [(row.op, row.meaning) for row in MEANINGS]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("row", MEANINGS, ids=lambda row: f"{row.op}-{row.meaning.name}")
def test_the_table_gives_the_example_its_meaning(row: Row) -> None:
    node = subject(row.op, row.meaning).subject()
    assert op_name(node) == row.op
    assert has_meaning(node, row.meaning)


def test_every_condition_has_an_example_that_does_not_meet_it() -> None:
    conditional = {(row.op, row.meaning) for row in MEANINGS if row.when is not None}
    assert conditional == set(COUNTER_EXAMPLES)
    for (op, meaning), example in COUNTER_EXAMPLES.items():
        node = example.subject()
        assert op_name(node) == op
        assert not has_meaning(node, meaning)


def test_an_op_of_another_domain_has_no_meaning() -> None:
    node = ir.node("MatMul", [ir.Value(name="a"), ir.Value(name="b")], domain="com.example")
    assert not any(has_meaning(node, meaning) for meaning in Meaning)


SPECIALS = np.array([np.inf, -np.inf, -0.0, 1e-8, 65504.0, 70000.0], np.float32)


@pytest.mark.parametrize("op", rows(Meaning.CARRIER))
@pytest.mark.parametrize("narrow", [FLOAT16, BFLOAT16], ids=str)
def test_a_carrier_moves_bits(op: str, narrow: formats.Format) -> None:
    example = EXAMPLES[op]
    x, w = operand(example), data(example, "w", seed=1)
    x.reshape(-1)[: min(x.size, SPECIALS.size)] = SPECIALS[: x.size]
    rounded = [None if v is None else formats.round_to(v, narrow) for v in (x, w)]
    assert rounded[0] is not None
    known = {0, *bits(x).flat, *(() if w is None else bits(w).flat)}
    for wide, low in zip(run(example, x, w), run(example, rounded[0], rounded[1]), strict=True):
        assert set(bits(wide).flat) <= known
        np.testing.assert_array_equal(bits(low), bits(formats.round_to(wide, narrow)))


@pytest.mark.parametrize("example", [SCATTER_ADD, SCATTER_ND_ADD], ids=["Elements", "ND"])
def test_a_scatter_with_reduction_moves_no_bits(example: Example) -> None:
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    assert not set(bits(result).flat) <= {*bits(x).flat, *bits(w).flat}


@pytest.mark.parametrize("op", rows(Meaning.METADATA))
def test_a_shape_reader_does_not_see_numbers(op: str) -> None:
    x = operand(EXAMPLES[op])
    [before], [after] = run(EXAMPLES[op], x), run(EXAMPLES[op], np.full_like(x, np.nan))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("op", rows(Meaning.MATMUL))
def test_a_matmul_sees_only_products_of_its_two_operands(op: str) -> None:
    example = EXAMPLES[op]
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    [shifted] = run(example, 4 * x, w / 4)
    np.testing.assert_array_equal(result, shifted)
    [changed] = run(example, 4 * x, w)
    assert not np.array_equal(result, changed)


@pytest.mark.parametrize("op", [op for op in rows(Meaning.MATMUL) if op != "Attention"])
def test_a_matmul_is_linear_in_each_of_its_two_operands(op: str) -> None:
    example = EXAMPLES[op]
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    assert np.abs(result).min() > 0
    for double in (run(example, 2 * x, w), run(example, x, 2 * w)):
        np.testing.assert_array_equal(double[0], 2 * result)
    for zero in (run(example, 0 * x, w), run(example, x, 0 * w)):
        assert not zero[0].any()


@pytest.mark.parametrize("op", rows(Meaning.MATMUL))
def test_a_matmul_multiplies_as_many_operands_as_its_row_says(op: str) -> None:
    example = EXAMPLES[op]
    node = example.subject()
    assert multiplied(node) == len(node.inputs) == (3 if op == "Attention" else 2)
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    for other in (run(example, -x, w), run(example, x, -w)):
        assert (np.abs(other[0] - result) > 0).any()


BIASED = {
    "Gemm": Example("Gemm (x, w, c)", w="4,3", constants="float[3] c = {1, 2, 4}"),
    "Conv": Example("Conv (x, w, c)", x="1,2,4,4", w="3,2,2,2", constants="float[3] c = {1, 2, 4}"),
    "ConvTranspose": Example(
        "ConvTranspose (x, w, c)", x="1,2,4,4", w="2,3,2,2", constants="float[3] c = {1, 2, 4}"
    ),
    "com.microsoft.FusedConv": Example(
        "com.microsoft.FusedConv (x, w, c)",
        x="1,2,4,4",
        w="3,2,2,2",
        constants="float[3] c = {1, 2, 4}",
    ),
}


@pytest.mark.parametrize("op", BIASED)
def test_what_a_matmul_does_not_multiply_is_added(op: str) -> None:
    example, plain = BIASED[op], EXAMPLES[op]
    node = example.subject()
    assert multiplied(node) == len(node.inputs) - 1
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    added = run(example, x, w)[0] - run(plain, x, w)[0]
    channels = added if op == "Gemm" else np.moveaxis(added, 1, -1)
    np.testing.assert_allclose(channels, np.broadcast_to([1.0, 2.0, 4.0], channels.shape), 1e-5)


@pytest.mark.parametrize(
    "example",
    [
        COUNTER_EXAMPLES["Einsum", Meaning.MATMUL],
        EXAMPLES["Mul"],
        EXAMPLES["Softmax"],
        EXAMPLES["Transpose"],
    ],
    ids=["Einsum of one operand", "Mul", "Softmax", "Transpose"],
)
def test_no_other_op_multiplies_and_sums(example: Example) -> None:
    assert multiplied(example.subject()) == 0


@pytest.mark.parametrize("op", rows(Meaning.ACCUMULATING))
def test_an_accumulating_op_has_a_result_that_needs_many_elements(op: str) -> None:
    example = subject(op, Meaning.ACCUMULATING)
    name = "w" if example.w else "x"
    summed = data(example, name)
    assert summed is not None
    summed = np.abs(summed) + np.float32(0.5)
    assert summed.size >= 5
    fixed = np.ones(example.shape("x"), np.float32)

    def result(values: Array) -> Array:
        first = run(example, fixed, values) if name == "w" else run(example, values)
        return first[0].reshape(-1)

    before = result(summed)
    always_changed = np.ones(before.shape, bool)
    for index in range(summed.size):
        other = summed.copy()
        other.flat[index] *= 2
        always_changed &= result(other) != before
    assert always_changed.any()


def error(before: Array, after: Array) -> tuple[float, float]:
    """Absolute and relative error of the first element."""
    difference = abs(float(before.flat[0]) - float(after.flat[0]))
    return difference, difference / abs(float(before.flat[0]))


AMPLIFIED = {
    "Log": 1.0007,
    "Reciprocal": 1e-7,
    "Tan": 1.5704,
    "Sinh": 80.02,
    "Cosh": 80.02,
    "Acosh": 1.0007,
    "Atanh": 0.9999,
    "Exp": 80.02,
    "Pow": 1.0004,
}


@pytest.mark.parametrize("op", rows(Meaning.AMPLIFYING))
def test_an_amplifying_op_magnifies_what_rounding_does(op: str) -> None:
    x = np.full(8, AMPLIFIED[op], np.float32)
    rounded = formats.round_to(x, FLOAT16)
    [before], [after] = run(EXAMPLES[op], x), run(EXAMPLES[op], rounded)
    absolute, relative = error(x, rounded)
    found = error(before, after)
    assert relative <= 2.0**-11 or op == "Reciprocal"
    assert found[0] > 1000 * absolute or found[1] > 10 * relative


def test_an_exponential_with_the_maximum_subtracted_magnifies_nothing() -> None:
    x = np.linspace(60, 80.02, 8, dtype=np.float32)
    rounded = formats.round_to(x, FLOAT16)
    [before], [after] = run(SAFE_EXP, x), run(SAFE_EXP, rounded)
    assert np.abs(before - after).max() <= 2 * np.abs(x - rounded).max()


def test_a_square_magnifies_little() -> None:
    x = np.full(8, AMPLIFIED["Pow"], np.float32)
    rounded = formats.round_to(x, FLOAT16)
    [before], [after] = run(SQUARE, x), run(SQUARE, rounded)
    assert error(before, after)[1] <= 3 * error(x, rounded)[1]


# An operand whose rounding to float16 makes the result jump.
JUMPS: Mapping[str, list[float]] = {
    "ArgMax": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "ArgMin": [-1, -1.0001, 0, 0, 0, 0, 0, 0],
    "TopK": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "Unique": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "Hardmax": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "NonZero": [1e-9] * 8,
    "Floor": [0.99999] * 8,
    "Ceil": [1.00001] * 8,
    "Round": [1.50001, 2.50001] * 4,
    "Sign": [1e-9] * 8,
    "Mod": [2.99999] * 8,
    "IsInf": [70000] * 8,
    "NonMaxSuppression": [0.50001],
    "RoiAlign": [0, 0, 2.0001, 2.0001],
    "MaxRoiPool": [0, 0, 0, 2.49999, 2.49999],
    "Bernoulli": [0.5001] * 200000,
    "Multinomial": [8.0, 8.0038],
}
COMPARED = [1.0001] * 8


@pytest.mark.parametrize("op", rows(Meaning.JUMPING))
def test_a_jumping_ops_result_jumps_when_its_operand_is_rounded(op: str) -> None:
    example = EXAMPLES[op]
    x = np.array(JUMPS.get(op, COMPARED), np.float32).reshape(example.shape("x"))
    rounded = formats.round_to(x, FLOAT16)
    runner.cache_clear()  # a generator of random numbers goes on where the last run ended
    before = run(example, x)
    runner.cache_clear()
    after = run(example, rounded)
    assert any(jumps(a, b, np.abs(x - rounded)) for a, b in zip(before, after, strict=True))


def jumps(before: Array, after: Array, moved: Array) -> bool:
    if before.shape != after.shape:
        return True
    if before.dtype != np.float32:
        return not np.array_equal(before, after)
    return float(np.abs(before - after).max()) > 100 * float(moved.max())


@pytest.mark.parametrize("op", rows(Meaning.INTEGERS))
def test_whole_operands_give_whole_results(op: str) -> None:
    example, generator = EXAMPLES[op], np.random.default_rng(0)
    for _ in range(20):
        x, w = generator.integers(-1000, 1000, (2, 8)).astype(np.float32)
        [result] = run(example, x, w if example.w else None)
        np.testing.assert_array_equal(result, np.rint(result))


@pytest.mark.parametrize("op", rows(Meaning.ELEMENTWISE))
def test_an_elementwise_ops_result_element_depends_on_its_own_operand_element(op: str) -> None:
    example = EXAMPLES[op]
    x, w = np.abs(operand(example)) + np.float32(0.25), data(example, "w", seed=1)
    if w is not None:
        w = np.abs(w) + np.float32(0.25)
    [before] = run(example, x, w)
    changed = np.zeros(8, bool)
    for name in ("x", "w") if w is not None else ("x",):
        for index in range(8):
            feeds = {"x": x.copy(), "w": None if w is None else w.copy()}
            values = feeds[name]
            assert values is not None
            values[index] = 7.6
            first = feeds["x"]
            assert first is not None
            [after] = run(example, first, feeds["w"])
            others = np.arange(8) != index
            np.testing.assert_array_equal(after[others], before[others])
            changed[index] |= after[index] != before[index]
    assert changed.all()


@pytest.mark.parametrize("op", rows(Meaning.BOUNDED))
def test_a_bounded_ops_result_is_moderate_however_large_its_operand(op: str) -> None:
    example = EXAMPLES[op]
    squares = op.endswith("Normalization")  # which leave float32's range beyond 1e19
    for magnitude in (1.0, 1e5, 1e10, 1e18) if squares else (1.0, 1e5, 1e18, 1e30):
        x = operand(example) * np.float32(magnitude)
        [result] = run(example, x)
        assert np.isfinite(result).all()
        assert np.abs(result).max() <= 10


@pytest.mark.parametrize("op", rows(Meaning.LIMITING))
def test_a_limit_out_of_range_limits_nothing(op: str) -> None:
    limits = "float l = {-3e38}, float h = {3e38}"
    infinite = "float l = {-inf}, float h = {inf}"
    node = {"Clip": "Clip (x, l, h)", "Min": "Min (x, h)", "Max": "Max (l, x)"}[op]
    finite, beyond = (Example(node, x="8", constants=text) for text in (limits, infinite))
    x = operand(finite) * np.float32(1000)
    np.testing.assert_array_equal(run(finite, x)[0], x)
    np.testing.assert_array_equal(run(beyond, x)[0], x)


@pytest.mark.parametrize("op", rows(Meaning.PERIODIC))
def test_a_periodic_op_makes_much_of_the_rounding_of_a_large_operand(op: str) -> None:
    x = np.full((4, 4), 10003.0, np.float32)
    rounded = formats.round_to(x, FLOAT16)
    assert error(x, rounded)[1] < 2.0**-11
    [before], [after] = run(EXAMPLES[op], x), run(EXAMPLES[op], rounded)
    assert error(before, after)[0] > 0.1


TINY = np.full(8, 2.0**-26, np.float32)  # float16 rounds it to 0


@pytest.mark.parametrize("op", rows(Meaning.ADDING))
def test_a_small_operand_hardly_counts_beside_a_large_one(op: str) -> None:
    assert not formats.round_to(TINY, FLOAT16).any()
    example, large = EXAMPLES[op], np.linspace(1, 2, 8, dtype=np.float32)
    for first, second in ((large, TINY), (TINY, large)):
        [before] = run(example, first, second)
        [after] = run(example, formats.round_to(first, FLOAT16), formats.round_to(second, FLOAT16))
        np.testing.assert_allclose(after, before, rtol=2.0**-10)


def test_a_small_factor_counts_all_the_same() -> None:
    large = np.linspace(1, 2, 8, dtype=np.float32)
    assert run(EXAMPLES["Mul"], large, TINY)[0].all()
    assert not run(EXAMPLES["Mul"], large, formats.round_to(TINY, FLOAT16))[0].any()


@pytest.mark.parametrize("op", rows(Meaning.DIVIDING))
def test_a_divisor_that_vanishes_gives_infinity_and_a_dividend_does_not(op: str) -> None:
    example, large = EXAMPLES[op], np.linspace(1, 2, 8, dtype=np.float32)
    vanished = formats.round_to(TINY, FLOAT16)
    assert np.isfinite(run(example, large, TINY)[0]).all()
    assert np.isinf(run(example, large, vanished)[0]).all()
    assert np.isfinite(run(example, vanished, large)[0]).all()


@pytest.mark.parametrize("op", rows(Meaning.EXPONENTIAL))
def test_a_step_in_an_exponent_is_a_relative_error(op: str) -> None:
    example = EXAMPLES[op]
    x = np.full(example.shape("x"), 1024, np.float32)
    x.flat[-2:] = 2046.75, 2047  # float16 counts in steps of 1 here
    ratios = []
    for each in (x, formats.round_to(x, FLOAT16)):
        [result] = run(example, each + np.float32(80 - 2047))
        ratios.append(result.flat[-1] / result.flat[-2])
    assert ratios == pytest.approx([np.exp(0.25), 1], rel=1e-3)


@pytest.mark.parametrize("op", rows(Meaning.COUNTING))
@pytest.mark.parametrize("narrow", [FLOAT16, BFLOAT16], ids=str)
def test_a_counting_op_counts_beyond_what_a_narrow_format_tells_apart(
    op: str, narrow: formats.Format
) -> None:
    [result] = run(EXAMPLES[op], np.array(0, np.float32))
    np.testing.assert_array_equal(result, np.arange(5000))
    assert np.unique(formats.round_to(result, narrow)).size < result.size


@pytest.mark.parametrize("op", rows(Meaning.QUANTISING))
def test_a_quantiser_goes_to_integers_and_back_by_a_float32_scale(op: str) -> None:
    x = np.linspace(-4, 5, 8, dtype=np.float32)
    if op == "DynamicQuantizeLinear":
        quantised, scale, zero = run(EXAMPLES[op], x)
        assert [quantised.dtype.name, scale.dtype.name] == ["uint8", "float32"]
        back = (quantised.astype(np.float32) - zero) * scale
        assert np.abs(back - x).max() <= scale
    elif op == "QuantizeLinear":
        [quantised] = run(EXAMPLES[op], x)
        assert quantised.dtype == np.int8
        assert np.abs(quantised * np.float32(0.5) - x).max() <= 0.25
    else:
        [back] = run(EXAMPLES[op], x)
        assert back.dtype == np.float32
        np.testing.assert_array_equal(2 * back, np.rint(2 * x))
