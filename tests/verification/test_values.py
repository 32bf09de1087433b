import pathlib

import ml_dtypes
import numpy as np
import pytest

from onnxcast.verification.values import Array, Value, read_values, write_values


def round_trip(folder: pathlib.Path, values: dict[str, object]) -> dict[str, Value]:
    write_values(folder / "values.npz", values)
    return read_values(folder / "values.npz")


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float32, np.float64, np.int8, np.uint64, np.bool_, np.complex64],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_come_back_as_they_were(
    tmp_path: pathlib.Path, dtype: type[np.generic], shape: tuple[int, ...]
) -> None:
    array = np.ones(shape, dtype)
    back = round_trip(tmp_path, {"x": array})["x"]
    assert isinstance(back, np.ndarray)
    assert (back.dtype, back.shape) == (array.dtype, shape)
    np.testing.assert_array_equal(back, array)


def test_names_and_order_are_kept(tmp_path: pathlib.Path) -> None:
    names = ["/layer/out:0", "file", "manifest", "arr_1", "é", ""]
    back = round_trip(tmp_path, {name: np.array(i) for i, name in enumerate(names)})
    assert list(back) == names
    assert [int(np.asarray(value)) for value in back.values()] == list(range(len(names)))


def test_sequences_and_absent_values_stay_apart(tmp_path: pathlib.Path) -> None:
    one = np.ones(2)
    back = round_trip(
        tmp_path, {"none": None, "empty": [], "one": [one], "two": [one, np.zeros(3)]}
    )
    assert back["none"] is None
    assert back["empty"] == []
    assert isinstance(back["one"], list)
    assert [np.shape(item) for item in back["two"] or ()] == [(2,), (3,)]


def test_string_objects_become_unicode(tmp_path: pathlib.Path) -> None:
    back = round_trip(tmp_path, {"s": np.array(["a", "bé"], object), "e": np.array([], object)})
    assert isinstance(back["s"], np.ndarray)
    assert back["s"].dtype.kind == "U"
    assert back["s"].tolist() == ["a", "bé"]
    assert np.asarray(back["e"]).shape == (0,)


def test_maps_become_keys_and_values(tmp_path: pathlib.Path) -> None:
    back = round_trip(tmp_path, {"map": {"cat": 0.25, "dog": 0.75}, "maps": [{0: 0.5}, {1: 0.5}]})
    assert [np.asarray(item).tolist() for item in back["map"] or ()] == [
        ["cat", "dog"],
        [0.25, 0.75],
    ]
    assert [np.asarray(item).tolist() for item in back["maps"] or ()] == [[0], [0.5], [1], [0.5]]


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1.5, -0.0], ml_dtypes.bfloat16), np.float32),
        (np.array([1.5, -0.0], ml_dtypes.float8_e5m2), np.float32),
        (np.array([7, -8], ml_dtypes.int4), np.int8),
        (np.array([15, 0], ml_dtypes.uint4), np.uint8),
    ],
)
def test_types_that_npz_lacks_are_widened(
    tmp_path: pathlib.Path, array: Array, dtype: type[np.generic]
) -> None:
    back = round_trip(tmp_path, {"x": array})["x"]
    assert isinstance(back, np.ndarray)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, array.astype(dtype))
