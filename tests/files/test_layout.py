"""Where tensors go: as in the source or as asked, aligned, and one data file for several models."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxcast.errors import InputError, RefusedError
from onnxcast.files import (
    NarrowedTensor,
    check_location,
    commit,
    commit_together,
    layout,
    read_model,
    write,
)
from onnxcast.files.atomic import settle

SIZE = 64
ALIGNMENT = 4096


def numbers(name: str) -> np.ndarray:
    seed = int.from_bytes(name.encode(), "big")
    return np.random.default_rng(seed).standard_normal((SIZE, SIZE), np.float32)


def write_shared(folder: Path, models: Mapping[str, str]) -> None:
    """Write models that multiply by weights of one letter each, in one data file for all."""
    places: dict[str, int] = {}
    with (folder / "all.data").open("wb") as file:
        for letter in dict.fromkeys("".join(models.values())):
            file.write(bytes(-file.tell() % ALIGNMENT))
            places[letter] = file.tell()
            file.write(numbers(letter).tobytes())
    for name, letters in models.items():
        info = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [1, SIZE]) for v in "xy"]
        steps = ["x", *(f"h{index}" for index in range(len(letters) - 1)), "y"]
        nodes = [
            helper.make_node("MatMul", [steps[index], letter], [steps[index + 1]])
            for index, letter in enumerate(letters)
        ]
        graph = helper.make_graph(nodes, name, info[:1], info[1:])
        for letter in letters:
            tensor = graph.initializer.add(name=letter, dims=[SIZE, SIZE], data_type=1)
            tensor.data_location = TensorProto.EXTERNAL
            size = str(4 * SIZE * SIZE)
            for key, value in {
                "location": "all.data",
                "offset": str(places[letter]),
                "length": size,
            }.items():
                tensor.external_data.add(key=key, value=value)
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / name)


def narrowed(path: Path) -> ir.Model:
    """The model with its weights in float16; it stays valid as everything else becomes so too."""
    model = read_model(path).model
    for value in model.graph.initializers.values():
        assert value.const_value is not None
        value.const_value = NarrowedTensor(value.const_value, ir.DataType.FLOAT16)
    for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()):
        value.type = ir.TensorType(ir.DataType.FLOAT16)
    return model


def external(path: Path) -> dict[str, dict[str, str]]:
    model = onnx.load(path, load_external_data=False)
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in model.graph.initializer
    }


def check_numbers(path: Path, letters: str) -> None:
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path)
    found = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    assert list(found) == list(letters)
    for letter, array in found.items():
        np.testing.assert_array_equal(array, numbers(letter).astype(np.float16))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shared(tmp_path, {"first.onnx": "ab", "second.onnx": "bca", "alone.onnx": "d"})
    return tmp_path


def together(folder: Path, *names: str) -> list[Path]:
    models = {folder / f"{name}.half.onnx": narrowed(folder / f"{name}.onnx") for name in names}
    return commit_together(models)


def data_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.half.*.data"))


def test_models_on_one_data_file_are_written_with_one(folder: Path) -> None:
    *models, data = together(folder, "first", "second")
    assert models == [folder / "first.half.onnx", folder / "second.half.onnx"]
    assert data_files(folder) == [data]
    digest = hashlib.sha256(data.read_bytes()).hexdigest()[:8]
    assert data.name == f"first.half.{digest}.data"
    check_numbers(models[0], "ab")
    check_numbers(models[1], "bca")
    first, second = map(external, models)
    assert all(first[letter] == second[letter] for letter in "ab")
    assert data.stat().st_size == 3 * 2 * SIZE * SIZE


def test_models_that_share_nothing_have_files_of_their_own(folder: Path) -> None:
    files = together(folder, "first", "alone", "second")
    assert len(files) == 5
    check_numbers(folder / "alone.half.onnx", "d")
    assert {each["location"] for each in external(folder / "alone.half.onnx").values()} == {
        data_files(folder)[0].name
    }
    assert external(folder / "first.half.onnx")["a"] == external(folder / "second.half.onnx")["a"]
    with pytest.raises(InputError, match="share no data"):
        commit_together(
            {
                folder / f"{name}.x.onnx": narrowed(folder / f"{name}.onnx")
                for name in ["first", "alone"]
            },
            location="w.data",
        )


def test_models_are_replaced_together_or_not_at_all(folder: Path) -> None:
    models = {
        folder / "out.onnx": narrowed(folder / "first.onnx"),
        folder / "lacking" / "out.onnx": narrowed(folder / "second.onnx"),
    }
    before = sorted(folder.iterdir())
    with pytest.raises(RefusedError, match="lacking"):
        commit_together(models)
    assert sorted(folder.iterdir()) == before


def test_old_data_stays_while_another_model_reads_it(folder: Path) -> None:
    *_, data = together(folder, "first", "second")
    commit(narrowed(folder / "alone.onnx"), folder / "first.half.onnx")
    assert data.exists()
    check_numbers(folder / "second.half.onnx", "bca")
    assert len(data_files(folder)) == 2
    together(folder, "first", "second")
    assert data_files(folder) == [data]
    commit(narrowed(folder / "alone.onnx"), folder / "second.half.onnx", external=False)
    *_, last = together(folder, "first")
    assert data_files(folder) == [last]


def test_data_stays_once_a_model_refers_to_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail_on_second(file: BinaryIO, target: Path) -> None:
        if target.name == "second.half.onnx":
            raise OSError(28, "No space left on device")
        settle(file, target)

    monkeypatch.setattr(write, "settle", fail_on_second)
    with pytest.raises(RefusedError, match="No space left"):
        together(folder, "first", "second")
    check_numbers(folder / "first.half.onnx", "ab")
    assert not (folder / "second.half.onnx").exists()
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("alignment", [64, 128, 4096, 65536])
def test_alignment_of_the_source_is_kept(tmp_path: Path, alignment: int) -> None:
    weights = [numbers(letter).reshape(-1)[: 500 + ord(letter)] for letter in "abcd"]
    places: list[int] = []
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 17}, name="g")
    with (tmp_path / "s.data").open("wb") as file:
        for index, weight in enumerate(weights):
            file.write(bytes(-file.tell() % alignment))
            place = file.tell()
            places.append(place)
            file.write(weight.tobytes())
            tensor = ir.ExternalTensor(
                "s.data",
                place,
                weight.nbytes,
                ir.DataType.FLOAT,
                shape=ir.Shape(weight.shape),
                name=f"w{index}",
                base_dir=tmp_path,
            )
            graph.register_initializer(
                ir.Value(
                    name=tensor.name,
                    const_value=NarrowedTensor(tensor, ir.DataType.BFLOAT16),
                    type=ir.TensorType(ir.DataType.BFLOAT16),
                    shape=ir.Shape(weight.shape),
                )
            )
    commit(ir.Model(graph, ir_version=8), tmp_path / "m.onnx")
    offsets = [int(each["offset"]) for each in external(tmp_path / "m.onnx").values()]
    kept = max(each for each in (64 << n for n in range(11)) if not any(p % each for p in places))
    at = 0
    for offset, weight in zip(offsets, weights, strict=True):
        at += -at % kept
        assert offset == at
        at += weight.nbytes // 2
    assert kept >= alignment


def test_large_tensors_stay_aligned_even_without_gaps(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_LARGE", 4 * SIZE * SIZE)
    commit(narrowed(folder / "second.onnx"), folder / "out.onnx")
    offsets = [int(each["offset"]) for each in external(folder / "out.onnx").values()]
    assert offsets == [0, 4 * SIZE * SIZE, 8 * SIZE * SIZE]


def test_data_goes_to_the_file_that_is_named(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = folder / "out.onnx"
    assert commit(narrowed(folder / "first.onnx"), output, location="w.bin") == [
        output,
        folder / "w.bin",
    ]
    check_numbers(output, "ab")
    assert not caplog.text
    commit(narrowed(folder / "second.onnx"), output, location="w.bin")
    check_numbers(output, "bca")
    assert "w.bin is replaced: models that read it are broken" in caplog.text
    commit(narrowed(folder / "second.onnx"), output)
    assert (folder / "w.bin").exists()
    inline = ir.from_proto(onnx.load(folder / "first.onnx"))
    commit(inline, output, location="v.bin")
    assert {each["location"] for each in external(output).values()} == {"v.bin"}


def test_a_model_may_be_replaced_with_the_data_file_that_it_reads(tmp_path: Path) -> None:
    small, large = np.full(8, 7, np.float32), np.arange(4096, dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "small"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])],
        [numpy_helper.from_array(small, "small"), numpy_helper.from_array(large, "large")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(
        helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]),
        path,
        save_as_external_data=True,
        location="weights.data",
        size_threshold=0,
    )
    commit(read_model(path).model, path, location="weights.data")
    for tensor in onnx.load(path).graph.initializer:
        wanted = small if tensor.name == "small" else large
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), wanted)


@pytest.mark.parametrize(
    ("location", "wanted"),
    [
        ("sub/w.data", "the name of a file beside out.onnx is wanted"),
        ("../w.data", "the name of a file beside out.onnx is wanted"),
        ("", "not a file to write data to"),
        ("out.onnx", "not a file to write data to"),
        ("sub", "not a file to write data to"),
        ("pipe", "not a file to write data to"),
        ("there.data", "cannot be replaced in one step"),
    ],
)
def test_a_location_must_be_a_new_file_beside_the_model(
    tmp_path: Path, location: str, wanted: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "there.data").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=wanted):
        check_location(location, tmp_path / "out.onnx", external=None, force=False)
    check_location("there.data", tmp_path / "out.onnx", external=True, force=True)
    with pytest.raises(InputError, match="none for inline data"):
        check_location("w.data", tmp_path / "out.onnx", external=False, force=False)
