"""Several models in one run, and where their weights go."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.conftest import Command
from tests.files.test_layout import SIZE, check_numbers, external, write_shared

LETTERS = {"decoder.onnx": "ab", "decoder_with_past.onnx": "bc"}


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    folder = tmp_path / "exported"
    folder.mkdir()
    write_shared(folder, LETTERS)
    return folder


def models(folder: Path) -> list[Path]:
    return [folder / name for name in LETTERS]


def test_models_on_one_data_file_are_converted_once(command: Command, exported: Path) -> None:
    ran = command("optimize", *models(exported), "--fp32-cast", "all-fp16")
    assert ran.code == 0, ran.err
    (data,) = exported.glob("*.float16.*.data")
    assert data.stat().st_size < 3 * 4 * SIZE * SIZE
    for name, letters in LETTERS.items():
        made = exported / name.replace(".onnx", ".float16.onnx")
        check_numbers(made, letters)
        assert {each["location"] for each in external(made).values()} == {data.name}
        assert str(made) in ran.out
    assert f"wrote {exported / 'decoder.float16.onnx'}" in ran.err
    assert str(data) in ran.err


def test_folders_hold_what_belongs_to_each_model(
    command: Command, exported: Path, tmp_path: Path
) -> None:
    out, inputs, reports = (tmp_path / name for name in ("out", "inputs", "reports"))
    for folder in (out, inputs, reports, inputs / "decoder_with_past"):
        folder.mkdir()
    sample = np.ones((1, SIZE), np.float32)
    np.savez(inputs / "decoder.npz", x=sample)
    np.savez(inputs / "decoder_with_past" / "0.npz", x=sample)
    folders = ["-o", out, "--inputs", inputs, "--report", reports]
    ran = command("optimize", *models(exported), "--fp32-cast", "all-fp16", "--json", *folders)
    assert ran.code == 0, ran.err
    told = [Path(each["source"]).name for each in json.loads(ran.out)]
    assert told == list(LETTERS)
    assert sorted(path.name for path in reports.iterdir()) == [
        "decoder.json",
        "decoder_with_past.json",
    ]
    assert len(list(out.iterdir())) == 3
    assert "made-up" not in ran.err


def test_nothing_is_written_if_one_of_several_fails(command: Command, exported: Path) -> None:
    (exported / "broken.onnx").write_bytes(b"no model")
    before = sorted(exported.iterdir())
    ran = command("optimize", *models(exported), exported / "broken.onnx", "--no-verify")
    assert ran.code == 2
    assert "broken.onnx: not a protobuf" in ran.err
    assert sorted(exported.iterdir()) == before


def test_weights_go_where_they_are_asked_to(command: Command, exported: Path) -> None:
    source, out = exported / "decoder.onnx", exported / "out.onnx"
    options = ["optimize", source, "--fp32-cast", "all-fp16", "--no-verify", "-o", out]
    assert command(*options, "--inline").code == 0
    assert external(out) == {"a": {}, "b": {}}
    assert command(*options, "--location", "w.bin").code == 0
    check_numbers(out, "ab")
    assert {each["location"] for each in external(out).values()} == {"w.bin"}
    again = command(*options, "--location", "w.bin")
    assert again.code == 2
    assert "w.bin: is there" in again.err
    forced = command(*options, "--location", "w.bin", "--force")
    assert forced.code == 0
    assert "w.bin is replaced: models that read it are broken" in forced.err
    check_numbers(out, "ab")


def test_an_inline_model_can_be_given_a_data_file(command: Command, exported: Path) -> None:
    inline = exported / "inline.onnx"
    onnx.save(onnx.load(exported / "decoder.onnx"), inline)
    options = ["optimize", inline, "--fp32-cast", "all-fp16", "--no-verify"]
    assert command(*options).code == 0
    made = exported / "inline.float16.onnx"
    assert external(made) == {"a": {}, "b": {}}
    assert command(*options, "--external-data").code == 0
    check_numbers(made, "ab")
    assert external(made)["a"]["location"].startswith("inline.float16.")


def test_no_model_is_written_over_another_that_is_read(command: Command, exported: Path) -> None:
    source, made = exported / "decoder.onnx", exported / "decoder.float16.onnx"
    options = ["--fp32-cast", "all-fp16", "--no-verify"]
    assert command("optimize", source, *options).code == 0
    before = {path: path.read_bytes() for path in exported.iterdir()}
    ran = command("optimize", source, made, *options)
    assert ran.code == 2
    assert f"{made}: would be written for {source} and is read in this run too" in ran.err
    assert {path: path.read_bytes() for path in exported.iterdir()} == before
