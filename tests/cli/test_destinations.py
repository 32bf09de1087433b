"""What may be written where: refused before the work with exit code 2, and left as it was."""

import os
import stat
from pathlib import Path

import onnx
import pytest

import onnxcast
from tests.cli.conftest import Command, Ran


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def worked(*_args: object, **_options: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(onnxcast, "optimize", worked)


def check(ran: Ran, *wanted: str) -> None:
    assert ran.code == 2
    assert not ran.out
    assert ran.err.startswith("onnxcast: error: ")
    assert ran.err.count("\n") == 1, ran.err
    for text in wanted:
        assert text in ran.err


def is_pipe(path: Path) -> bool:
    return stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_pipe_is_not_replaced(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path, option: str
) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    check(command("optimize", perceptron, "--inputs", samples, option, pipe), "not a regular file")
    assert is_pipe(pipe)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("option", ["-o", "--report"])
def test_samples_are_not_replaced(
    command: Command, perceptron: Path, samples: Path, option: str
) -> None:
    before = samples.read_bytes()
    ran = command("optimize", perceptron, "--inputs", samples, option, samples)
    check(ran, "is where the samples are")
    assert samples.read_bytes() == before


@pytest.mark.usefixtures("no_work")
def test_no_model_replaces_the_plan(command: Command, perceptron: Path, tmp_path: Path) -> None:
    plan = tmp_path / "report.json"
    plan.write_text("{}")
    check(command("optimize", perceptron, "--plan", plan, "-o", plan), "is the plan")
    assert plan.read_text() == "{}"


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("option", ["-o", "--report"])
@pytest.mark.parametrize("name", ["0.npz", "new.npz", "test_data_set_0/input_0.pb"])
def test_nothing_is_written_among_the_samples(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path, option: str, name: str
) -> None:
    folder = tmp_path / "samples"
    (folder / "test_data_set_0").mkdir(parents=True)
    samples.rename(folder / "0.npz")
    path = folder / name
    ran = command("optimize", perceptron, "--inputs", folder, option, path)
    check(ran, "is where the samples are")


@pytest.mark.usefixtures("no_work")
def test_a_report_does_not_replace_weights(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path
) -> None:
    model = onnx.load(perceptron)
    onnx.external_data_helper.convert_model_to_external_data(
        model, location="w.data", size_threshold=0
    )
    onnx.save(model, tmp_path / "outside.onnx")
    before = (tmp_path / "w.data").read_bytes()
    ran = command(
        "optimize",
        tmp_path / "outside.onnx",
        *("--inputs", samples, "--report", tmp_path / "w.data"),
    )
    check(ran, "w.data", "no report of onnxcast")
    assert (tmp_path / "w.data").read_bytes() == before


def test_an_earlier_report_and_an_empty_file_are_replaced(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.touch()
    for token in ("all-fp16", "matmult-fp16"):
        options = ["--fp32-cast", token, "--inputs", samples, "--report", report]
        assert command("optimize", perceptron, *options).code == 0
        assert token in report.read_text()


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_folder_that_is_not_writable(
    command: Command, perceptron: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != closed)
    check(command("optimize", perceptron, option, closed / "file"), "not writable")


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("path", "wanted"), [("", "an empty path"), ("x" * 1000, "too long")])
@pytest.mark.parametrize("option", ["-o", "--report", "--inputs", "MODEL"])
def test_a_path_that_can_be_none(
    command: Command, perceptron: Path, option: str, path: str, wanted: str
) -> None:
    arguments = [path, "-o", "out.onnx"] if option == "MODEL" else [perceptron, option, path]
    check(command("optimize", *arguments), wanted)


@pytest.mark.parametrize("subcommand", ["optimize", "inspect"])
def test_a_pipe_is_no_model(command: Command, tmp_path: Path, subcommand: str) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    check(command(subcommand, tmp_path / "pipe.onnx"), "not a regular file")


@pytest.mark.parametrize("place", ["pipe.npz", "folder/pipe.npz", "folder/input_0.pb"])
def test_a_pipe_is_no_sample(
    command: Command, perceptron: Path, tmp_path: Path, place: str
) -> None:
    pipe = tmp_path / "in" / place
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    inputs = pipe if pipe.parent.name == "in" else pipe.parent
    check(command("optimize", perceptron, "--inputs", inputs), pipe.name)


def test_a_report_that_cannot_be_written_after_all(
    command: Command,
    perceptron: Path,
    samples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = onnxcast.optimize
    folder = tmp_path / "reports"
    folder.mkdir()

    def slow(*args: object, **options: object) -> object:
        folder.rmdir()  # somebody else does that meanwhile
        return real(*args, **options)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(onnxcast, "optimize", slow)
    options = ["--inputs", samples, "--report", folder / "r.json", "-o", tmp_path / "out.onnx"]
    ran = command("optimize", perceptron, *options)
    assert ran.code == 1
    assert "cannot be written" in ran.err
    assert not (tmp_path / "out.onnx").exists()
