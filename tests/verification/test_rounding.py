"""Nodes that round in onnxruntime give the values of `formats.round_to`."""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxcast import formats
from onnxcast.formats import BFLOAT16, FLOAT8E4, FLOAT8E4M3FN, FLOAT8E5M2, FLOAT16, Format
from onnxcast.graph.edit import Names
from onnxcast.verification.rounding import FIRST_OPSET, Roundings

Array = npt.NDArray[np.float32]

BITS = [1, 7, 10, 11, 22]
OPSETS = [9, 13, 21]
TYPED = [FLOAT16, BFLOAT16, FLOAT8E4M3FN, FLOAT8E5M2, FLOAT8E4]


def load(opset: int, text: str) -> ir.Model:
    header = f'<ir_version: 4, opset_import: ["": {opset}]>'
    return ir.from_proto(onnx.parser.parse_model(header + text))


def rounding(format_: Format, opset: int) -> ir.Model:
    """A model that rounds its input."""
    model = load(opset, "g (float[N] x) => (float[N] x) { }")
    nodes = Roundings(model, Names(model)).nodes(model.graph.inputs[0], format_)
    model.graph.extend(nodes)
    [result] = nodes[-1].outputs
    result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), model.graph.inputs[0].shape
    model.graph.outputs[0] = result
    return model


@functools.cache
def session(format_: Format, opset: int) -> ort.InferenceSession:
    proto = ir.to_proto(rounding(format_, opset))
    onnx.checker.check_model(proto, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def rounded(values: Array, format_: Format, opset: int = 21) -> Array:
    [found] = session(format_, opset).run(None, {"x": values})
    return np.asarray(found)


def floats(bits: Iterable[Any] | npt.NDArray[Any]) -> Array:
    return np.asarray(bits).astype(np.uint32).view(np.float32)


def both_signs(values: Array) -> Array:
    return np.concatenate([values, -values])


def anything(count: int) -> Array:
    """Random bit patterns: NaN, infinities and subnormals are among them."""
    return floats(np.random.default_rng(0).integers(0, 2**32, count, np.uint64))


def ties(significand: int) -> Array:
    """Halves between neighbours, and the numbers next to each, over all exponents."""
    step = 2 ** (24 - significand)
    exponents = np.arange(256, dtype=np.int64)[:, None] << 23
    places = np.arange(0, 2**23, max(step, 2**18))[None, :]
    middles = (exponents + places + step // 2).reshape(-1)
    near = [middles + offset for offset in (-1, 0, 1)]
    odd = [middles + step + offset for offset in (-1, 0, 1)]
    return both_signs(floats(np.concatenate([*near, *odd]) & 0x7FFFFFFF))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("opset", OPSETS)
def test_any_float32_is_rounded_as_numpy_rounds(opset: int, bits: int) -> None:
    values, format_ = anything(200_000), formats.float32r(bits)
    # NaN equals NaN here, and -0 equals +0: the sign of zero is not kept.
    np.testing.assert_array_equal(
        rounded(values, format_, opset), formats.round_to(values, format_)
    )


@pytest.mark.parametrize("bits", BITS)
def test_ties_go_to_even_at_every_exponent(bits: int) -> None:
    format_ = formats.float32r(bits)
    values = ties(format_.significand)
    np.testing.assert_array_equal(rounded(values, format_), formats.round_to(values, format_))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("opset", OPSETS)
def test_subnormals_are_rounded_to_their_coarser_step(opset: int, bits: int) -> None:
    format_ = formats.float32r(bits)
    below = np.arange(0, 2**14)
    around = 2**23 + np.arange(-(2**13), 2**13)
    middle = np.random.default_rng(1).integers(0, 2**23, 2**14)
    values = both_signs(floats(np.concatenate([below, around, middle])))
    found = rounded(values, format_, opset)
    np.testing.assert_array_equal(found, formats.round_to(values, format_))
    steps = np.ldexp(found.astype(np.float64), -format_.quantum)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert np.count_nonzero(found) > 1000


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("opset", OPSETS)
def test_the_largest_numbers_overflow_where_they_should(opset: int, bits: int) -> None:
    format_ = formats.float32r(bits)
    half = 2 ** (22 - bits)
    top = 0x7F800000  # infinity
    last = np.arange(top - 4 * half, top, max(1, half // 4096))
    edges = np.array([top - half - 1, top - half, top - half + 1, top - 1, top])
    scaled = (np.arange(2**8) * 2**15)[:, None] + np.arange(200 << 23, 255 << 23, 2**23)[None, :]
    values = both_signs(floats(np.concatenate([last, edges, scaled.reshape(-1)])))
    found = rounded(values, format_, opset)
    np.testing.assert_array_equal(found, formats.round_to(values, format_))
    assert rounded(floats([top - half]), format_, opset).tolist() == [np.inf]
    assert rounded(floats([top - half - 1]), format_, opset).tolist() == [format_.max]


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("opset", OPSETS)
def test_what_is_not_finite_stays_and_zero_stays_zero(opset: int, bits: int) -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    quiet_and_signalling = floats([0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFBFFFFF])
    found = rounded(np.append(values, quiet_and_signalling), formats.float32r(bits), opset)
    np.testing.assert_array_equal(found[:5], values)
    assert np.isnan(found[5:]).all()


@pytest.mark.parametrize("bits", BITS)
def test_rounding_twice_changes_nothing(bits: int) -> None:
    once = rounded(anything(20_000), formats.float32r(bits))
    np.testing.assert_array_equal(rounded(once, formats.float32r(bits)), once)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    bits=st.integers(1, 23),
    values=st.lists(st.floats(width=32), min_size=1, max_size=20),
)
def test_every_number_of_bits_is_rounded_as_numpy_rounds(bits: int, values: list[float]) -> None:
    array, format_ = np.array(values, np.float32), formats.float32r(bits)
    np.testing.assert_array_equal(rounded(array, format_), formats.round_to(array, format_))


@pytest.mark.parametrize("format_", TYPED, ids=str)
def test_a_format_with_a_type_is_rounded_as_numpy_rounds(format_: Format) -> None:
    spread = np.random.default_rng(2).normal(size=50_000) * 2.0 ** np.arange(-25, 25).repeat(1000)
    limits = np.array([240, 247.9, 248, 248.1, 256, 448, 464, 465, 480, 57344, 61440, 65504, 65520])
    special = np.array([0, np.inf, np.nan, 2**-9, 2**-10, 2**-24, 2**-25, 3.4e38, 1e-45])
    values = np.concatenate([spread, limits, special]).astype(np.float32)
    values = np.concatenate([both_signs(values), anything(100_000)])
    np.testing.assert_array_equal(rounded(values, format_), formats.round_to(values, format_))


def test_a_range_smaller_than_the_types_is_clipped_first() -> None:
    values = np.array([239, 241, 448, 1e9, np.inf, -300, -np.inf, np.nan], np.float32)
    found = rounded(values, FLOAT8E4)
    np.testing.assert_array_equal(found, [240, 240, 240, 240, 240, -240, -240, np.nan])
    assert rounded(values, FLOAT8E4M3FN).tolist()[:3] == [240, 240, 448]
    ops = [node.op_type for node in rounding(FLOAT8E4, 21).graph]
    assert ops == ["Constant", "Constant", "Clip", "Cast", "Cast"]
    assert [node.op_type for node in rounding(FLOAT8E4M3FN, 21).graph] == ["Cast", "Cast"]


def test_all_roundings_to_a_format_share_one_function() -> None:
    model = load(FIRST_OPSET, "g (float[N] x, float[N] z) => (float[N] x) { }")
    roundings = Roundings(model, Names(model))
    for value in model.graph.inputs:
        for bits in (10, 11):
            model.graph.extend(roundings.nodes(value, formats.float32r(bits)))
    names = [name for _, name, _ in model.functions]
    assert names == ["RoundFloat32r10", "RoundFloat32r11"]
    assert model.ir_version == 8
    results = [value.name for node in model.graph for value in node.outputs]
    assert len(set(results)) == len(results) == 4
    onnx.checker.check_model(ir.to_proto(model))
