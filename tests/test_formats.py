"""Formats by exhaustion: the storage dtypes of numpy and ml_dtypes are the truth."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx.reference
import onnx_ir as ir
import pytest

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.formats import FORMATS, Format, Kind

Array = npt.NDArray[Any]
# A value as a dictionary key: NaN and -0 by name (they differ from, or equal, too much), other
# real numbers as themselves (Python compares int with float exactly), complex ones as a pair.
Key = Any

FLOAT32R = formats.float32r()
NUMERIC = tuple(each for each in FORMATS if each.kind is not Kind.STRING)
ROUNDABLE = tuple(
    each for each in NUMERIC if each.kind is Kind.FLOAT and each is not formats.FLOAT8E8M0
)
SMALL = tuple(each for each in ROUNDABLE if each.bits <= 16)


def storage(form: Format) -> np.dtype[Any]:
    return np.dtype(np.float32) if form.dtype is None else form.dtype.numpy()


def patterns(form: Format) -> Array:
    """All values of a format of at most 16 bits, in the order of their bits."""
    if form.kind is Kind.BOOL:
        return np.array([False, True])
    width = np.uint16 if form.bits == 16 else np.uint8
    return np.arange(2**form.bits, dtype=np.uint32).astype(width).view(storage(form))


def float_boundaries(width: int, stored_bits: int, kept_bits: int) -> Array:
    """Every exponent with the significands at its ends and some between, of both signs."""
    dropped = stored_bits - kept_bits
    top = 2**kept_bits - 1
    random = np.random.default_rng(7).integers(0, top, 8).tolist()
    fractions = np.array([0, 1, 2, top // 2, top - 1, top, *random], np.uint64) << dropped
    exponents = np.arange(2 ** (width - stored_bits), dtype=np.uint64) << stored_bits
    bits = (exponents[:, None] | fractions[None, :]).reshape(-1)
    return bits.astype(f"uint{width}").view(f"float{width}")


def int_boundaries(form: Format) -> list[int]:
    info = np.iinfo(storage(form))
    near = [sign * 2**k + step for k in range(65) for sign in (1, -1) for step in (-1, 0, 1)]
    return [value for value in (0, *near) if info.min <= value <= info.max]


def as_keys(values: Array) -> list[Key]:
    numbers = values.tolist() if values.dtype.kind in "iub" else as_float64(values).tolist()
    return [key(number) for number in numbers]


@np.errstate(invalid="ignore")  # signalling NaN
def as_float64(values: Array) -> Array:
    result: Array = values.astype(np.float64)
    return result


def key(number: float) -> Key:
    if math.isnan(number):
        return "nan"
    return "-0" if number == 0 and math.copysign(1, number) < 0 else number


@functools.cache
def samples(form: Format) -> tuple[Key, ...]:
    """All values up to 16 bits; of wider formats those at every boundary."""
    if form.kind is Kind.COMPLEX:
        parts = samples(formats.FLOAT32 if form.bits == 64 else formats.FLOAT64)
        return (*parts, *((part, 1.0) for part in parts), *((1.0, part) for part in parts))
    if form.bits <= 16:
        return tuple(as_keys(patterns(form)))
    if form.kind is Kind.FLOAT:
        stored = 52 if form.bits == 64 else 23
        return tuple(as_keys(float_boundaries(form.bits, stored, form.significand - 1)))
    return tuple(int_boundaries(form))


@functools.cache
def value_set(form: Format) -> frozenset[Key]:
    return frozenset(samples(form))


def holds(form: Format, value: Key) -> bool:
    """Ask by execution whether a value survives being stored in a format."""
    if form.bits <= 16:
        return value in value_set(form)
    if form.kind is Kind.COMPLEX:
        part = np.float32 if form.bits == 64 else np.float64
        parts = value if isinstance(value, tuple) else (value,)
        return all(survives(part, each) for each in parts)
    if isinstance(value, tuple):
        return False
    if form.kind is Kind.FLOAT:
        return survives(storage(form).type, value) and (
            form.dtype is not None or fits_float32r(form, value)
        )
    info = np.iinfo(storage(form))
    return (
        not isinstance(value, str)
        and info.min <= value <= info.max
        and (isinstance(value, int) or value.is_integer())
    )


def survives(dtype: Any, value: Key) -> bool:
    if isinstance(value, str):
        return bool(key(float(dtype(float(value)))) == value)
    try:
        return bool(float(dtype(value)) == value)
    except OverflowError:
        return False


def fits_float32r(form: Format, value: Key) -> bool:
    if value == "nan":
        return True
    mask = 2 ** (24 - form.significand) - 1
    return not int(np.float32(float(value)).view(np.uint32)) & mask


def executed(wide: Format, narrow: Format) -> bool:
    with np.errstate(all="ignore"):
        return all(holds(wide, value) for value in samples(narrow))


def table(form: Format) -> Array:
    """The finite values from +0 up, so that the index of a value has the parity of its bits."""
    if form.dtype is None:
        dropped = 24 - form.significand
        bits = np.arange(0x7F800000 >> dropped, dtype=np.uint32) << np.uint32(dropped)
        return bits.view(np.float32).astype(np.float64)
    values = as_float64(patterns(form)[: 2 ** (form.bits - 1)])
    return values[np.isfinite(values)]


def midpoints(values: Array) -> Array:
    """Where rounding changes; the last one is half a step above the largest value."""
    return np.append(values[:-1] + values[1:], 2 * values[-1] + values[-1] - values[-2]) / 2


def nearest(values: Array, form: Format, saturate: bool) -> Array:
    """Round by searching the table of all values."""
    grid, middles = table(form), midpoints(table(form))
    values = as_float64(values)
    size = np.abs(values)
    index = np.searchsorted(middles, size, side="left")
    index += (index < len(middles)) & (index % 2 == 1) & (middles.take(index, mode="clip") == size)
    saturates = not form.has_nan or (saturate and form.bits == 8)
    above = grid[-1] if saturates else np.inf if form.has_inf else np.nan
    result: Array = np.copysign(np.append(grid, above)[index], values)
    result[np.isnan(values)] = np.nan if form.has_nan else form.max
    if not form.has_negative_zero:
        result += 0.0
    return result


def same(a: Array, b: Array) -> None:
    """Equal numbers, NaN where NaN, and zeros of the same sign."""
    np.testing.assert_array_equal(a, b)
    zero = a == 0
    np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


def hard_cases(form: Format, dtype: Any) -> Array:
    """All values and ties of a format, the neighbours of both in the dtype, and the specials."""
    points = np.concatenate([table(form), midpoints(table(form))]).astype(dtype)
    below, above = np.nextafter(points, dtype(0)), np.nextafter(points, dtype(np.inf))
    largest = np.finfo(dtype).max
    specials = np.array([np.inf, np.nan, largest, np.finfo(dtype).smallest_subnormal], dtype)
    positive = np.concatenate([points, below, above, specials])
    return np.concatenate([positive, -positive])


@functools.cache
def float32_sweep() -> Array:
    """Every upper half of a float32 with lower halves at and around a tie of bfloat16."""
    lower = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    upper = np.arange(2**16, dtype=np.uint32) << np.uint32(16)
    return (upper[:, None] | lower[None, :]).reshape(-1).view(np.float32)


def test_there_is_one_format_for_every_onnx_element_type() -> None:
    assert {each.dtype for each in FORMATS} == set(ir.DataType) - {ir.DataType.UNDEFINED}
    assert len({each.name for each in FORMATS}) == len(FORMATS)
    for each in FORMATS:
        assert each.dtype is not None
        assert formats.of(each.dtype) is each
        assert formats.by_name(str(each)) is each


def test_every_element_type_of_onnx_has_a_format() -> None:
    onnx_names = set(onnx.TensorProto.DataType.keys()) - {"UNDEFINED"}
    assert onnx_names <= {each.dtype.name for each in FORMATS if each.dtype is not None}


@pytest.mark.parametrize("form", NUMERIC, ids=str)
def test_the_stated_facts_are_those_of_the_storage_dtype(form: Format) -> None:
    assert form.dtype is not None
    assert form.bits == form.dtype.itemsize * 8
    real = [value for value in samples(form) if isinstance(value, (int, float))]
    finite = [value for value in real if math.isfinite(value)]
    assert (min(finite), max(finite)) == (form.min, form.max)
    assert min(value for value in finite if value > 0) == 2.0**form.smallest
    assert (math.inf in real, "nan" in samples(form)) == (form.has_inf, form.has_nan)
    assert ("-0" in samples(form)) == form.has_negative_zero
    assert form.signed == any(value < 0 for value in finite)
    if form.kind is Kind.FLOAT:
        assert form.subnormals == any(0 < value < 2.0**form.emin for value in finite)


@pytest.mark.parametrize("wide", NUMERIC, ids=str)
def test_contains_is_what_execution_finds_for_every_pair(wide: Format) -> None:
    found = {narrow.name: executed(wide, narrow) for narrow in NUMERIC}
    assert {narrow.name: formats.contains(wide, narrow) for narrow in NUMERIC} == found


def test_string_and_numbers_never_contain_each_other() -> None:
    assert formats.contains(formats.STRING, formats.STRING)
    for each in (*NUMERIC, FLOAT32R):
        assert not formats.contains(formats.STRING, each)
        assert not formats.contains(each, formats.STRING)


@pytest.mark.parametrize("explicit_bits", [2, 7, 10, 11, 22, 23])
def test_contains_of_float32r_is_what_execution_finds(explicit_bits: int) -> None:
    reduced = formats.float32r(explicit_bits)
    for each in NUMERIC:
        assert formats.contains(reduced, each) == executed(reduced, each), each.name
        assert formats.contains(each, reduced) == executed(each, reduced), each.name


def test_known_answers_of_contains() -> None:
    f32, f16, bf16 = formats.FLOAT32, formats.FLOAT16, formats.BFLOAT16
    holding = [
        *((wide, each) for wide in (f16, bf16) for each in (formats.INT8, formats.UINT8)),
        *((wide, formats.FLOAT8E4M3FN) for wide in (f16, bf16)),
        *((wide, formats.FLOAT8E5M2) for wide in (f16, bf16)),
        *((FLOAT32R, each) for each in (f16, bf16)),
        (f32, FLOAT32R),
        (formats.COMPLEX64, f32),
    ]
    missing = [
        (f16, bf16),
        (bf16, f16),
        (f16, formats.INT16),
        (f32, formats.INT32),
        (f32, formats.COMPLEX64),
        (formats.COMPLEX64, formats.FLOAT64),
    ]
    assert [pair for pair in holding if not formats.contains(*pair)] == []
    assert [pair for pair in missing if formats.contains(*pair)] == []


def test_a_format_that_flushes_subnormals_lacks_them() -> None:
    flushing = dataclasses.replace(formats.FLOAT32, name="flushing", subnormals=False)
    assert formats.contains(flushing, formats.FLOAT16)
    assert not formats.contains(flushing, formats.BFLOAT16)
    assert formats.contains(formats.FLOAT32, flushing)
    # Its smallest value is float16's 2**-20, but the next one, 2**-20 + 2**-30, is not.
    finer = dataclasses.replace(formats.FLOAT16, emin=-20, subnormals=False)
    assert not formats.contains(formats.FLOAT16, finer)


def test_a_format_without_a_special_value_contains_none_that_has_it() -> None:
    narrow, wide = formats.FLOAT16, formats.FLOAT32
    for lacking in (
        dataclasses.replace(wide, has_inf=False),
        dataclasses.replace(wide, has_nan=False),
        dataclasses.replace(wide, has_negative_zero=False),
    ):
        assert not formats.contains(lacking, narrow)
        assert formats.contains(wide, lacking)


@pytest.mark.parametrize("a", [*FORMATS, FLOAT32R], ids=str)
def test_join_is_the_least_upper_bound(a: Format) -> None:
    floats, complexes = {Kind.FLOAT}, {Kind.COMPLEX}
    for b in (*FORMATS, FLOAT32R):
        kinds = {a.kind, b.kind}
        wanted = complexes if kinds & complexes else floats if kinds & floats else None
        bounds = [
            each
            for each in {*NUMERIC, a, b}
            if (each.kind in wanted if wanted else each.kind not in floats | complexes)
            and formats.contains(each, a)
            and formats.contains(each, b)
        ]
        least = [low for low in bounds if all(formats.contains(each, low) for each in bounds)]
        joined = formats.join(a, b)
        assert joined == (least[0] if least else None), (a.name, b.name)
        assert len(least) <= 1
        assert formats.join(b, a) == joined


@pytest.mark.parametrize("form", [*FORMATS, FLOAT32R, formats.float32r(7)], ids=str)
def test_join_with_itself_is_itself(form: Format) -> None:
    assert formats.join(form, form) == form


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        ("float16", "bfloat16", "float32"),
        ("float32r", "bfloat16", "float32r"),
        ("float32r", "float32", "float32"),
        ("uint8", "int8", "int16"),
        ("bool", "uint4", "uint4"),
        ("int16", "float16", "float32"),
        ("int32", "float16", "float64"),
        ("float64", "complex64", "complex128"),
        ("float8e4m3fn", "float8e5m2", None),
        ("uint64", "int8", None),
        ("int64", "float16", None),
        ("string", "float32", None),
    ],
)
def test_known_answers_of_join(a: str, b: str, joined: str | None) -> None:
    expected = formats.by_name(joined) if joined else None
    assert formats.join(formats.by_name(a), formats.by_name(b)) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("form", SMALL, ids=str)
def test_rounding_finds_the_nearest_value(form: Format, saturate: bool, dtype: Any) -> None:
    values = hard_cases(form, dtype)
    expected = nearest(values, form, saturate)
    rounded = formats.round_to(values, form, saturate=saturate)
    stored = formats.to_storage(values, form, saturate=saturate)
    assert (rounded.dtype, stored.dtype) == (values.dtype, storage(form))
    same(rounded, expected)
    same(stored.astype(np.float64), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("explicit_bits", [7, 10, 11])
def test_float32r_rounding_finds_the_nearest_value(explicit_bits: int, dtype: Any) -> None:
    form = formats.float32r(explicit_bits)
    values = hard_cases(form, dtype)
    same(formats.round_to(values, form), nearest(values, form, saturate=True))
    assert formats.to_storage(values, form).dtype == np.float32


@pytest.mark.parametrize("form", [*SMALL, FLOAT32R], ids=str)
def test_float32_sweep_rounds_to_the_nearest_value(form: Format) -> None:
    values = float32_sweep()
    same(formats.round_to(values, form), nearest(values, form, saturate=True))


@pytest.mark.parametrize("form", [FLOAT32R, *SMALL], ids=str)
def test_nan_of_any_payload_stays_nan(form: Format) -> None:
    bits = np.array([0x7F800001, 0x7FFFFFFF, 0x7FC00000, 0xFF800001, 0xFFFFFFFF], np.uint32)
    rounded = formats.round_to(bits.view(np.float32), form)
    assert np.isnan(rounded).all() if form.has_nan else (rounded == form.max).all()


def test_the_largest_float32_rounds_to_infinity_in_the_ieee_formats() -> None:
    values = np.array([np.finfo(np.float32).max, np.finfo(np.float32).min])
    for form in (formats.FLOAT16, formats.BFLOAT16, FLOAT32R):
        for saturate in (True, False):
            same(
                formats.round_to(values.astype(np.float32), form, saturate=saturate),
                np.array([np.inf, -np.inf], np.float32),
            )


@pytest.mark.parametrize(
    "form", [formats.FLOAT32, formats.FLOAT16, formats.BFLOAT16, FLOAT32R], ids=str
)
def test_float64_is_rounded_once(form: Format) -> None:
    tie = 2.0**-form.significand
    values = np.array([1 + tie + 2.0**-50, 1 + tie, 1 + tie - 2.0**-50, 1e300, -1e-300])
    expected = np.array([1 + 2 * tie, 1, 1, np.inf, -0.0])
    same(formats.round_to(values, form), expected)
    same(formats.to_storage(values, form).astype(np.float64), expected)


def test_the_float64_witness_rounds_twice_by_way_of_float32() -> None:
    witness = np.array([1 + 2.0**-8 + 2.0**-50])
    by_way = witness.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    assert by_way != formats.round_to(witness, formats.BFLOAT16)


def test_rounding_to_a_containing_format_changes_nothing() -> None:
    values = np.array([1.1, np.nan, -0.0, np.inf, 1e-45], np.float32)
    for form in (formats.FLOAT32, formats.FLOAT64, formats.float32r(23)):
        assert formats.round_to(values, form).tobytes() == values.tobytes()
        assert formats.to_storage(values, form).dtype == storage(form)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
@pytest.mark.parametrize("form", [*ROUNDABLE, FLOAT32R], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shape_is_kept_and_the_input_is_not_changed(
    form: Format, shape: tuple[int, ...], dtype: Any
) -> None:
    values = np.full(shape, 1.03, dtype)
    before = values.copy()
    for result in (formats.round_to(values, form), formats.to_storage(values, form)):
        assert isinstance(result, np.ndarray)
        assert result.shape == shape
    np.testing.assert_array_equal(values, before)


@pytest.mark.skipif(
    tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 19),
    reason="onnx 1.18 rounds by hand in its reference, and loses infinities and NaNs",
)
@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("form", [each for each in SMALL if each.has_nan], ids=str)
def test_rounding_is_cast_of_the_onnx_reference(form: Format, saturate: int) -> None:
    assert form.dtype is not None
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 19]> agraph (float[N] x) => (float[N] z) {'
        f" y = Cast <to = {form.dtype.value}, saturate = {saturate}> (x)"
        " z = Cast <to = 1> (y) }"
    )
    values = hard_cases(form, np.float32)
    with np.errstate(all="ignore"):
        (cast,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": values})
    assert isinstance(cast, np.ndarray)
    same(formats.round_to(values, form, saturate=bool(saturate)), cast)


@pytest.mark.parametrize("name", ["float8e8m0", "int8", "bool", "complex64", "string"])
def test_a_format_that_cannot_be_rounded_to_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot round to {name}"):
        formats.round_to(np.zeros(1, np.float32), formats.by_name(name))


@pytest.mark.parametrize("dtype", [np.int32, np.float16, ">f4"])
def test_values_of_another_dtype_are_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match="want float32 or float64"):
        formats.to_storage(np.zeros(1, dtype), formats.BFLOAT16)


def test_an_unknown_name_is_answered_with_the_nearest_first() -> None:
    with pytest.raises(InputError, match=r"'bfloat61'; use one of bfloat16, .*float32r"):
        formats.by_name("bfloat61")


def test_an_element_type_without_a_format_is_an_input_error() -> None:
    with pytest.raises(InputError, match="UNDEFINED"):
        formats.of(ir.DataType.UNDEFINED)


@pytest.mark.parametrize("explicit_bits", [0, 24])
def test_float32r_has_1_to_23_explicit_bits(explicit_bits: int) -> None:
    with pytest.raises(ValueError, match=f"not {explicit_bits}"):
        formats.float32r(explicit_bits)


def test_float32r_by_name_keeps_11_explicit_bits() -> None:
    assert formats.by_name("float32r") == formats.float32r(11)


def test_no_two_onnx_formats_hold_the_same_values() -> None:
    for a, b in itertools.combinations(FORMATS, 2):
        assert not (formats.contains(a, b) and formats.contains(b, a))


def hifloat8_values() -> frozenset[Key]:
    """Decode all 256 patterns: sign, prefix code for the exponent's width, exponent, rest."""
    found: set[Key] = {"nan", math.inf, -math.inf, 0.0}
    for bits in range(1, 0x80):
        if bits == 0x6F:  # infinity
            continue
        width, prefix = next(
            (width, prefix)
            for code, width, prefix in (
                (3, 4, 2),
                (2, 3, 2),
                (1, 2, 2),
                (1, 1, 3),
                (1, 0, 4),
                (0, -1, 4),
            )
            if bits >> (7 - prefix) == code
        )
        if width < 0:
            value = 2.0 ** (bits - 23)
        else:
            kept = 7 - prefix - width
            field, fraction = (bits >> kept) & (2**width - 1), bits & (2**kept - 1)
            size = field & (2 ** max(width - 1, 0) - 1) | (2 ** (width - 1) if width else 0)
            exponent = -size if width and field >> (width - 1) else size
            value = 2.0**exponent * (1 + fraction / 2**kept)
        found.update((value, -value))
    return frozenset(found)


def test_hifloat8_is_what_its_layout_gives() -> None:
    values, form = hifloat8_values(), formats.HIFLOAT8
    finite = [value for value in values if value != "nan" and math.isfinite(value)]
    assert len(finite) == 253
    assert (min(finite), max(finite)) == (form.min, form.max)
    assert min(value for value in finite if value > 0) == 2.0**form.smallest
    for wide in NUMERIC:
        assert formats.contains(wide, form) == all(holds(wide, each) for each in values), wide
    for narrow in NUMERIC:
        held = set(samples(narrow)) <= values
        assert formats.contains(form, narrow) == held, narrow
    # Contiguous whole numbers are exact up to 16.
    assert set(range(17)) <= values
    assert formats.contains(form, form)
    assert formats.by_name("hifloat8") == form
