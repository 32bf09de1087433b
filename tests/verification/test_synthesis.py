import numpy as np
import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.verification.inputs import InputSpec
from onnxcast.verification.synthesis import parse_input_shape, random_feeds
from onnxcast.verification.values import Array

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def draw(
    *specs: InputSpec, shapes: dict[str, tuple[int, ...]] | None = None, seed: int = 0
) -> dict[str, Array]:
    [feeds] = random_feeds(specs, shapes=shapes or {}, seed=seed)
    return {name: np.asarray(value) for name, value in feeds.items()}


def shapes_of(feeds: dict[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in feeds.items()}


def test_the_same_seed_gives_the_same_samples() -> None:
    spec = InputSpec("x", FLOAT, (100,))
    np.testing.assert_array_equal(draw(spec)["x"], draw(spec)["x"])
    assert not np.array_equal(draw(spec)["x"], draw(spec, seed=1)["x"])


def test_each_sample_is_another() -> None:
    first, second = random_feeds([InputSpec("x", FLOAT, (100,))], samples=2)
    assert not np.array_equal(np.asarray(first["x"]), np.asarray(second["x"]))


def test_free_sizes_are_one_on_the_first_axis_and_eight_elsewhere() -> None:
    feeds = draw(InputSpec("x", FLOAT, (None, 3, None)), InputSpec("s", FLOAT, ()))
    assert shapes_of(feeds) == {"x": (1, 3, 8), "s": ()}


def test_a_symbolic_size_is_the_same_everywhere() -> None:
    feeds = draw(InputSpec("a", FLOAT, ("batch", "seq")), InputSpec("b", FLOAT, ("seq", "batch")))
    assert shapes_of(feeds) == {"a": (1, 8), "b": (8, 1)}


def test_a_symbolic_sum_is_the_sum_of_its_parts() -> None:
    feeds = draw(
        InputSpec("mask", INT64, ("batch", "past + seq")),
        InputSpec("ids", INT64, ("batch", "seq")),
        InputSpec("past", FLOAT, ("batch", 2, "past", 4)),
        InputSpec("next", FLOAT, ("batch", "seq + 1")),
    )
    assert shapes_of(feeds) == {
        "mask": (1, 16),
        "ids": (1, 8),
        "past": (1, 2, 8, 4),
        "next": (1, 9),
    }


def test_a_given_shape_fixes_the_sizes_it_names() -> None:
    feeds = draw(
        InputSpec("a", FLOAT, ("N", "seq")),
        InputSpec("b", FLOAT, ("N", 3, "seq")),
        InputSpec("free", FLOAT, None),
        shapes={"b": (2, 3, 5), "free": (7,)},
    )
    assert shapes_of(feeds) == {"a": (2, 5), "b": (2, 3, 5), "free": (7,)}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1,)}, "a shape is given for 'z', no input; the inputs are a, b"),
        ({"a": (1, 2, 3)}, r"input 'a': shape \[1,2,3\] is given, the model wants \[N,4\]"),
        ({"a": (1, 5)}, r"shape \[1,5\] is given, the model wants \[N,4\]"),
        ({"a": (1, 4), "b": (2,)}, r"input 'b': shape \[2\] is given, the model wants \[N\]"),
    ],
)
def test_a_given_shape_that_contradicts_the_model_is_refused(
    shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        draw(InputSpec("a", FLOAT, ("N", 4)), InputSpec("b", FLOAT, ("N",)), shapes=shapes)


@pytest.mark.parametrize("shape", [(-1, 4), (1.5, 4), ("N", 4), (None, 4)])
@pytest.mark.parametrize("wanted", [None, ("N", 4)])
def test_a_given_shape_of_what_is_no_size_is_refused(
    shape: tuple[int, ...], wanted: tuple[str | int, ...] | None
) -> None:
    with pytest.raises(InputError, match="whole numbers from 0 up are wanted"):
        draw(InputSpec("x", FLOAT, wanted), shapes={"x": shape})


def test_a_given_shape_may_be_that_of_a_scalar_and_of_numpys_integers() -> None:
    assert shapes_of(draw(InputSpec("x", FLOAT, None), shapes={"x": ()})) == {"x": ()}
    size = tuple(np.array([3, 2]))
    assert shapes_of(draw(InputSpec("x", FLOAT, None), shapes={"x": size})) == {"x": (3, 2)}


@pytest.mark.parametrize("shape", [(2**28 + 1,), (100_000_000, 1, 32, 32)])
def test_more_than_memory_may_hold_is_not_made_up(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"elements, at most 268435456 are made up"):
        draw(InputSpec("x", FLOAT, shape))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (InputSpec("x", FLOAT, None), "unknown rank: give its shape"),
        (InputSpec("x", None, (1,)), "is of unknown type"),
        (InputSpec("x", None, None, "sequence"), "is a sequence"),
    ],
)
def test_what_cannot_be_made_up_is_refused(spec: InputSpec, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(spec)


def test_inputs_with_a_value_of_their_own_are_left_out() -> None:
    assert not random_feeds([InputSpec("w", FLOAT, (1,), required=False)])[0]


def test_optional_inputs_are_absent() -> None:
    assert random_feeds([InputSpec("o", None, None, "optional")]) == [{"o": None}]


@pytest.mark.parametrize(
    "dtype", [t for t in ir.DataType if t is not ir.DataType.UNDEFINED], ids=str
)
def test_every_type_is_drawn_as_itself(dtype: ir.DataType) -> None:
    array = draw(InputSpec("x", dtype, (1000,)))["x"]
    if dtype is ir.DataType.STRING:
        assert array.dtype == np.dtype("<U1")
    else:
        assert array.dtype == dtype.numpy()
    assert len(set(array.tolist())) > 1


@pytest.mark.parametrize(
    ("dtype", "highest"),
    [
        (ir.DataType.INT32, 1),
        (ir.DataType.INT64, 1),
        (ir.DataType.UINT8, 100),
        (ir.DataType.INT8, 100),
        (ir.DataType.INT16, 100),
        (ir.DataType.UINT4, 15),
        (ir.DataType.INT4, 7),
    ],
)
def test_integers_are_small_and_may_index(dtype: ir.DataType, highest: int) -> None:
    array = draw(InputSpec("x", dtype, (2000,)))["x"].astype(np.int64)
    assert (array.min(), array.max()) == (0, highest)


def test_floats_are_standard_normal() -> None:
    array = draw(InputSpec("x", FLOAT, (10000,)))["x"]
    # Three standard errors of the mean and of the deviation at this size are 0.03 and 0.021.
    assert abs(float(array.mean())) < 0.03
    assert abs(float(array.std()) - 1) < 0.021


@pytest.mark.parametrize("dtype", [FLOAT, INT64, ir.DataType.BOOL])
def test_masks_never_mask_a_whole_row(dtype: ir.DataType) -> None:
    mask = draw(InputSpec("attention_mask", dtype, (64, 4)))["attention_mask"].astype(int)
    assert set(np.unique(mask)) == {0, 1}
    assert mask[:, 0].all()
    assert draw(InputSpec("mask", dtype, ()))["mask"] == 1
    assert draw(InputSpec("mask", dtype, (0,)))["mask"].size == 0


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("x:1,3,224,224", ("x", (1, 3, 224, 224))),
        ("x:5", ("x", (5,))),
        ("scope/x:0:2,0", ("scope/x:0", (2, 0))),
    ],
)
def test_an_input_shape_is_read(text: str, parsed: tuple[str, tuple[int, ...]]) -> None:
    assert parse_input_shape(text) == parsed


@pytest.mark.parametrize(
    "text", ["", "x", "x:", ":1,2", "x:1,", "x:,1", "x:-1", "x:1x2", "x:1, 2", "x:N", "x:²"]
)
def test_a_malformed_input_shape_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not of the form NAME:1,3,224,224"):
        parse_input_shape(text)
