import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxcast import RefusedError
from onnxcast_models import fetch as fetching
from onnxcast_models.catalogue import CATALOGUE, Wheel
from tests.cli.conftest import Command


def test_list_names_every_model(command: Command) -> None:
    ran = command("zoo", "list")
    assert ran.code == 0
    names = [line.split()[0] for line in ran.out.splitlines()[1:]]
    assert names == [entry.name for entry in CATALOGUE]
    rows = json.loads(command("zoo", "list", "--json").out)
    assert [row["name"] for row in rows] == names


def test_run_converts_the_packaged_model(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = command("zoo", "run", "digits_resnet_ts", "--token", "all-fp16", "--out", out)
    assert ran.code == 0
    assert "1 written" in ran.out
    assert "100%" in ran.out
    assert [path.name for path in out.iterdir()] == ["digits_resnet_ts.all-fp16.onnx"]


def test_run_takes_a_folder_and_tells_why_a_model_is_refused(
    command: Command, overflow: Path, perceptron: Path
) -> None:
    old = onnx.load(overflow)
    old.opset_import[0].version = 5
    onnx.save(old, overflow.parent / "old.onnx")
    arguments = ["zoo", "run", "--from", overflow.parent, "--token", "all-fp16"]
    ran = command(*arguments)
    assert ran.code == 0
    assert "1 refused, 2 written" in ran.out
    assert "old all-fp16: " in ran.out
    rows = {row["name"]: row for row in json.loads(command(*arguments, "--json").out)}
    assert rows["old"]["outcome"] == "refused"
    assert rows["overflow"]["outcome"] == "written"
    assert rows[perceptron.stem]["outcome"] == "written"
    assert rows[perceptron.stem]["narrow"] == 1.0


def test_samples_are_taken_from_their_own_folder(
    command: Command, overflow: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    ones = np.ones(4, np.float32)
    np.savez(folder / "overflow.npz", x=ones, k=ones, s=ones)
    arguments = ["zoo", "run", "overflow", "--from", overflow.parent, "--token", "all-fp16"]
    assert "1 written" in command(*arguments, "--samples", folder).out


def test_a_folder_without_models_is_bad_usage(command: Command, tmp_path: Path) -> None:
    ran = command("zoo", "run", "--from", tmp_path)
    assert ran.code == 2
    assert "no .onnx file" in ran.err


def test_a_fault_of_ours_does_not_stop_the_run_but_shows(
    command: Command, perceptron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError("at node 7")

    monkeypatch.setattr("onnxcast.optimize", broken)
    ran = command("zoo", "run", "--from", perceptron.parent, "--token", "none")
    assert ran.code == 1
    assert "perceptron none: ZeroDivisionError: at node 7" in ran.out


def test_a_model_that_cannot_be_had_fails_with_a_cause(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(wheel: Wheel, _folder: Path) -> None:
        raise RefusedError(f"{wheel}: pip cannot download it")

    monkeypatch.setattr(fetching, "_download", offline)
    shared = ["silero_vad", "--cache", tmp_path]
    ran = command("zoo", "run", *shared, "--token", "none")
    assert ran.code == 1
    assert "silero-vad==6.2.3: pip cannot download it" in ran.out
    ran = command("zoo", "fetch", *shared)
    assert ran.code == 1
    assert ran.err == "onnxcast: error: silero-vad==6.2.3: pip cannot download it\n"


def test_fetch_prints_paths(command: Command) -> None:
    ran = command("zoo", "fetch", "digits_resnet_ts")
    assert ran.code == 0
    assert onnx.load(ran.out.strip()).graph.input[0].name == "image"
