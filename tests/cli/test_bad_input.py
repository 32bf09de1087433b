"""Whatever a user gets wrong costs one line and exit code 2, and nothing is written."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.conftest import Command, Ran


@pytest.fixture
def folder(tmp_path: Path, perceptron: Path, samples: Path) -> Path:
    """One file for each way in which a file can be bad, beside good ones."""
    data = perceptron.read_bytes()
    (tmp_path / "text.onnx").write_text("this is no protobuf\n")
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "truncated.onnx").write_bytes(data[: len(data) // 2])
    invalid = onnx.load(perceptron)
    invalid.graph.node[1].input[0] = "nowhere"
    onnx.save(invalid, tmp_path / "invalid.onnx")
    np.savez(tmp_path / "name.npz", z=np.zeros((2, 8), np.float32))
    np.savez(tmp_path / "type.npz", x=np.zeros((2, 8), np.int64))
    np.savez(tmp_path / "rank.npz", x=np.zeros(8, np.float32))
    (tmp_path / "damaged.npz").write_bytes(b"PK no archive")
    assert samples.exists()
    return tmp_path


def check(ran: Ran, *wanted: str) -> None:
    assert ran.code == 2
    assert not ran.out
    assert ran.err.startswith("onnxcast: error: ")
    assert ran.err.count("\n") == 1, ran.err
    for text in wanted:
        assert text in ran.err


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("missing.onnx", "no such file"),
        ("text.onnx", "not a protobuf"),
        ("empty.onnx", "empty file"),
        ("truncated.onnx", "truncated"),
        ("invalid.onnx", "nowhere"),
        (".", "a directory"),
    ],
)
@pytest.mark.parametrize("subcommand", ["optimize", "inspect"])
def test_a_bad_model(
    command: Command, folder: Path, subcommand: str, model: str, wanted: str
) -> None:
    before = sorted(folder.iterdir())
    check(command(subcommand, folder / model), model, wanted)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--inputs", "name.npz"], ["no input 'z'", "inputs are x"]),
        (["--inputs", "type.npz"], ["input 'x' is int64", "wants float32"]),
        (["--inputs", "rank.npz"], ["input 'x' has rank 1", "wants [n,8]"]),
        (["--inputs", "damaged.npz"], ["damaged.npz"]),
        (["--inputs", "nowhere.npz"], ["samples nowhere.npz", "no such file"]),
        (["--fp32-cast", "all-fp61"], ["unknown token", "known are none, all,", "all-fp16?"]),
        (["--fp32-cast", "all", "--dtype", "bf16"], ["together with a scope or dtype"]),
        (["--scope", "some"], ["unknown scope 'some'", "matmult"]),
        (["--dtype", "fp9"], ["unknown dtype 'fp9'", "bf16"]),
        (["--target", "abacus"], ["unknown target 'abacus'", "generic"]),
        (["--keep-op", "MatMal"], ["MatMal", "nearest: MatMul"]),
        (["--opset", "high"], ["opset 'high'", "auto, keep or a number"]),
        (["--input-shape", "x"], ["input shape 'x'", "NAME:1,3,224,224"]),
        (["--input-shape", "x:1,a"], ["input shape 'x:1,a'"]),
        (["--input-shape", "q:1,8"], ["'q'", "inputs are x"]),
        (["--input-shape", "x:1,8", "--input-shape", "x:2,8"], ["for 'x': given twice"]),
        (["--input-shape", "x:100000000,8"], ["800000000 elements", "give a smaller shape"]),
        (["--opset", "99"], ["opset 99 wanted", "knows 1 to"]),
        (["--tolerance", "small"], ["tolerance 'small'", "1e-2"]),
        (["--tolerance", "-1"], ["tolerance '-1'"]),
        (["--tolerance", "nan"], ["tolerance 'nan'"]),
        (["--no-verify", "--tolerance", "1"], ["--no-verify", "drop one"]),
        (["-o", "perceptron.onnx"], ["is the input itself", "--force"]),
        (["-o", "nowhere/out.onnx"], ["no folder"]),
        (["--report", "nowhere/report.json"], ["existing folder"]),
        (["--report", "perceptron.onnx"], ["is a model of this run"]),
        (["--report", "report.pdf"], ["report.pdf: a page or JSON", ".html or .json"]),
        (["--fast"], ["No such option", "onnxcast optimize --help"]),
        (["more.onnx"], ["more.onnx: no such file"]),
        (["perceptron.onnx"], ["perceptron.float16.onnx: would be written for two models"]),
        (["more.onnx", "-o", "new.onnx"], ["-o new.onnx: a folder is wanted for 2 models"]),
        (["more.onnx", "--report", "r.json"], ["--report r.json: a folder is wanted"]),
        (["more.onnx", "--inputs", "samples.npz"], ["--inputs samples.npz: a folder is wanted"]),
        (["more.onnx", "--inputs", "."], ["no samples for perceptron.onnx", "perceptron.npz"]),
        (["--inline", "--external-data"], ["--inline together with", "drop one"]),
        (["--inline", "--location", "w.data"], ["--inline together with", "drop one"]),
        (["--location", "a/w.data"], ["location 'a/w.data'", "without a folder"]),
        (["--location", "samples.npz"], ["samples.npz: is there", "--force"]),
    ],
)
def test_a_bad_option_of_optimize(
    command: Command,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    wanted: list[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    check(command("optimize", "perceptron.onnx", *options), *wanted)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["optimise"], ["No such command"]),
        (["optimize"], ["Missing argument"]),
        (["verify", "a.onnx"], ["Missing argument"]),
        (["verify", "a.onnx", "b.onnx"], ["a.onnx: no such file"]),
        (["zoo", "run", "gpt"], ["no model 'gpt'", "digits_resnet_ts"]),
        (["zoo", "run", "--models", "nowhere"], ["no such folder"]),
        (["zoo", "run", "--token", "half"], ["unknown token"]),
        (["zoo", "fetch", "silero"], ["did you mean silero_vad"]),
    ],
)
def test_bad_usage(command: Command, arguments: list[str], wanted: list[str]) -> None:
    check(command(*arguments), *wanted)


def test_models_with_other_inputs_are_not_compared(
    command: Command, perceptron: Path, overflow: Path
) -> None:
    check(command("verify", perceptron, overflow), "the second model has inputs")
