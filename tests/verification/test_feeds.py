import errno
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxcast.errors import InputError
from onnxcast.verification.feeds import InputSpec, input_specs, load_feeds, random_feeds
from onnxcast.verification.values import Array, Feeds, Value

SPECS = [
    InputSpec("x", ir.DataType.FLOAT, ("N", 2)),
    InputSpec("ids", ir.DataType.INT64, (3,)),
    InputSpec("w", ir.DataType.FLOAT, (1,), required=False),
]


def sample(fill: float = 0.0) -> dict[str, Array]:
    return {"x": np.full((4, 2), fill, np.float32), "ids": np.arange(3)}


def save_data_set(folder: pathlib.Path, *protos: onnx.TensorProto | onnx.SequenceProto) -> None:
    folder.mkdir(parents=True)
    for index, proto in enumerate(protos):
        (folder / f"input_{index}.pb").write_bytes(proto.SerializeToString())


def tensors(fill: float = 0.0) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(array) for array in sample(fill).values()]


def fills(feeds: Sequence[Feeds]) -> list[float]:
    return [float(np.asarray(each["x"])[0, 0]) for each in feeds]


def test_specs_say_what_the_model_asks_for() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[N, 3, ?] x, int64 k, bfloat16[] r, seq(float[3]) s, optional(float[2]) o,
           float[2] w = {1, 2}) => (float[N, 3, ?] y) { y = Identity (x) }"""
    )
    assert input_specs(model) == [
        InputSpec("x", ir.DataType.FLOAT, ("N", 3, None)),
        InputSpec("k", ir.DataType.INT64, ()),
        InputSpec("r", ir.DataType.BFLOAT16, None),
        InputSpec("s", None, None, "sequence"),
        InputSpec("o", None, None, "optional"),
        InputSpec("w", ir.DataType.FLOAT, (2,), required=False),
    ]


def test_without_a_source_one_sample_is_made_up() -> None:
    [made] = load_feeds(None, SPECS)
    [again] = random_feeds(SPECS)
    assert list(made) == ["x", "ids"]
    np.testing.assert_array_equal(np.asarray(made["x"]), np.asarray(again["x"]))


def test_one_dict_is_one_sample() -> None:
    [feeds] = load_feeds({"ids": np.arange(3), "x": np.ones((1, 2), np.float32)}, SPECS)
    assert list(feeds) == ["x", "ids"]


def test_a_list_of_dicts_is_a_list_of_samples() -> None:
    assert fills(load_feeds([sample(1), sample(2)], SPECS)) == [1, 2]


def test_an_npz_file_is_one_sample(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", x=sample(3)["x"], ids=np.arange(3))
    assert fills(load_feeds(tmp_path / "a.npz", SPECS)) == [3]
    assert fills(load_feeds(str(tmp_path / "a.npz"), SPECS)) == [3]


def test_a_directory_of_npz_files_is_taken_in_order(tmp_path: pathlib.Path) -> None:
    for name, fill in (("b", 2), ("a", 1), ("c", 3)):
        np.savez(tmp_path / f"{name}.npz", x=sample(fill)["x"], ids=np.arange(3))
    assert fills(load_feeds(tmp_path, SPECS)) == [1, 2, 3]


def test_a_data_set_directory_is_one_sample_by_position(tmp_path: pathlib.Path) -> None:
    save_data_set(tmp_path / "test_data_set_0", *tensors(5))
    [feeds] = load_feeds(tmp_path / "test_data_set_0", SPECS)
    assert fills([feeds]) == [5]
    np.testing.assert_array_equal(np.asarray(feeds["ids"]), np.arange(3))


def test_data_sets_and_their_inputs_are_taken_by_number(tmp_path: pathlib.Path) -> None:
    for number in (10, 2, 0):
        save_data_set(tmp_path / f"test_data_set_{number}", *tensors(number))
    (tmp_path / "test_data_set_3.tar.gz").touch()
    assert fills(load_feeds(tmp_path, SPECS)) == [0, 2, 10]
    many = [InputSpec(f"i{n}", ir.DataType.INT64, ()) for n in range(11)]
    protos = [numpy_helper.from_array(np.array(n)) for n in range(11)]
    save_data_set(tmp_path / "many", *protos)
    [feeds] = load_feeds(tmp_path / "many", many)
    assert [int(np.asarray(value)) for value in feeds.values()] == list(range(11))


def test_a_name_in_a_data_set_goes_before_its_position(tmp_path: pathlib.Path) -> None:
    # Old models list their weights among the inputs, some of them first.
    specs = [SPECS[2], SPECS[0], SPECS[1]]
    x, ids = tensors(7)
    x.name, ids.name = "x", "ids"
    save_data_set(tmp_path / "set", x, ids)
    [feeds] = load_feeds(tmp_path / "set", specs)
    assert list(feeds) == ["x", "ids"]


def test_sequences_and_optionals_come_from_data_sets(tmp_path: pathlib.Path) -> None:
    one = np.ones(2, np.float32)
    save_data_set(
        tmp_path / "set",
        numpy_helper.from_list([one, one]),
        numpy_helper.from_optional(one),
        numpy_helper.from_optional(None, dtype=onnx.OptionalProto.TENSOR),
    )
    specs = [
        InputSpec("s", None, None, "sequence"),
        InputSpec("o", None, None, "optional"),
        InputSpec("n", None, None, "optional"),
    ]
    [feeds] = load_feeds(tmp_path / "set", specs)
    assert len(feeds["s"] or ()) == 2
    np.testing.assert_array_equal(np.asarray(feeds["o"]), one)
    assert feeds["n"] is None


def test_optional_feeds_may_be_given() -> None:
    [feeds] = load_feeds({**sample(), "w": np.ones(1, np.float32)}, SPECS)
    assert list(feeds) == ["x", "ids", "w"]


def test_strings_are_given_as_objects_or_unicode() -> None:
    spec = InputSpec("t", ir.DataType.STRING, (2,))
    for array in (np.array(["a", "b"], object), np.array(["a", "b"])):
        [feeds] = load_feeds({"t": array}, [spec])
        assert np.asarray(feeds["t"]).dtype == np.dtype("<U1")


def test_float32_is_rounded_to_types_that_files_cannot_hold() -> None:
    spec = InputSpec("x", ir.DataType.BFLOAT16, (1,))
    [feeds] = load_feeds({"x": np.array([1.001], np.float32)}, [spec])
    assert np.asarray(feeds["x"]).dtype == ml_dtypes.bfloat16
    assert np.asarray(feeds["x"]).tolist() == [1.0]
    [same] = load_feeds(feeds, [spec])
    assert same["x"] is feeds["x"]


X = np.zeros((4, 2), np.float32)
IDS = np.arange(3)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"x": X, "ids": IDS, "z": X},
            "the sample: the model has no input 'z'; its inputs are x, ids, w",
        ),
        ({"x": X}, "the sample: input 'ids' is missing; it has x"),
        ([{"x": X, "ids": IDS}, {}], "sample 1: input 'x' is missing; it has none"),
        (
            {"x": X.astype(np.float64), "ids": IDS},
            "the sample: input 'x' is float64, the model wants float32; convert it",
        ),
        (
            {"x": X.astype(">f4"), "ids": IDS},
            "the sample: input 'x' is >f4, the model wants float32; convert it",
        ),
        (
            {"x": X, "ids": np.array(["a", "b", "c"])},
            "the sample: input 'ids' is string, the model wants int64; convert it",
        ),
        (
            {"x": np.array([[None, 1]]), "ids": IDS},
            "the sample: input 'x' holds Python objects; the model wants numbers or strings",
        ),
        (
            {"x": X[0], "ids": IDS},
            "the sample: input 'x' has rank 1, shape [2]; the model wants [N,2]",
        ),
        (
            {"x": X, "ids": IDS[:2]},
            "the sample: input 'ids' has size 2 on axis 0, shape [2]; the model wants [3]",
        ),
        ({"x": [X], "ids": IDS}, "the sample: input 'x' is a list; the model wants one array"),
        (
            {"x": None, "ids": IDS},
            "the sample: input 'x' is one NoneType; the model wants an array",
        ),
        ([], "the list of samples is empty; give at least one sample"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_in_one_line(
    source: Mapping[str, Value] | list[Mapping[str, Value]], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_feeds(source, SPECS)
    assert str(caught.value) == message


def test_one_array_is_no_sequence() -> None:
    with pytest.raises(InputError, match="one ndarray; the model wants a list of arrays"):
        load_feeds({"s": X}, [InputSpec("s", None, None, "sequence")])


def test_the_message_names_the_file(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", x=X)
    with pytest.raises(InputError, match=r"a\.npz: input 'ids' is missing"):
        load_feeds(tmp_path, SPECS)


def test_a_path_without_samples_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.npy").touch()
    for path, message in (
        (tmp_path / "absent.npz", r"samples .*absent\.npz: no such file"),
        (tmp_path / "x.npy", r"neither an \.npz file, Polygraphy's \.json nor a folder"),
        (tmp_path, "none in this folder"),
    ):
        with pytest.raises(InputError, match=message):
            load_feeds(path, SPECS)


def test_a_folder_that_may_not_be_read_is_not_called_empty(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_self: pathlib.Path) -> Iterator[pathlib.Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(pathlib.Path, "iterdir", denied)
    with pytest.raises(InputError, match=r"cannot be read: .*Permission denied"):
        load_feeds(tmp_path, SPECS)


@pytest.mark.parametrize("name", ["x.npz", "input_0.pb"])
def test_a_pipe_is_not_waited_for(tmp_path: pathlib.Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="not a regular file"):
        load_feeds(tmp_path, SPECS)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"\x93NUMPY\x01\x00", b"text"])
def test_a_damaged_npz_file_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npz cannot be read: .") as caught:
        load_feeds(tmp_path, SPECS)
    assert "\n" not in str(caught.value)
    assert "pickle" not in str(caught.value)


def test_a_renamed_npy_file_is_refused(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(InputError, match="no whole archive of named arrays"):
        load_feeds(tmp_path, SPECS)


def test_pickled_objects_are_not_loaded(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], object))
    with pytest.raises(InputError, match="cannot be read"):
        load_feeds(tmp_path, SPECS)


@pytest.mark.parametrize("content", [b"", b"no protobuf", b"\x08"])
def test_a_damaged_data_set_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    save_data_set(tmp_path / "set", *tensors())
    (tmp_path / "set" / "input_1.pb").write_bytes(content)
    with pytest.raises(InputError, match=r"input_1\.pb cannot be read: ."):
        load_feeds(tmp_path / "set", SPECS)


def test_a_data_set_with_too_many_inputs_is_refused(tmp_path: pathlib.Path) -> None:
    save_data_set(tmp_path / "set", *tensors(), *tensors())
    with pytest.raises(InputError, match=r"input_3\.pb is one too many: the model has 3 inputs"):
        load_feeds(tmp_path / "set", SPECS)
