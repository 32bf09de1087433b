"""What an installed onnxcast is first asked for; needs pytest and nothing of the repository."""

import importlib.metadata
import importlib.resources
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxcast

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] y) <float[4,4] W = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
    h = MatMul (x, W)
    y = Relu (h)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "onnxcast"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("token", ["all-fp16", "all", "matmult", "all-fp8e4", "all-fp32r"])
def test_the_command_converts_and_proves(model: Path, tmp_path: Path, token: str) -> None:
    output = tmp_path / "out.onnx"
    done = run("optimize", model, "--fp32-cast", token, "-o", output)
    assert done.returncode == 0, done.stderr
    assert "verified on 1 made-up sample" in done.stdout
    onnx.checker.check_model(str(output), full_check=True)
    assert run("verify", model, output).returncode == 0


def test_a_target_is_kept_to(model: Path, tmp_path: Path) -> None:
    done = run("optimize", model, "--target", "ascend950", "-o", tmp_path / "out.onnx")
    assert done.returncode == 0, done.stderr
    assert run("targets", "show", "ascend950").returncode == 0


def test_bad_input_is_one_line_and_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    done = run("optimize", bad)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_python_takes_a_model_in_memory() -> None:
    samples = {"x": np.ones((2, 4), np.float32)}
    result = onnxcast.optimize(onnx.parser.parse_model(TEXT), fp32_cast="all-fp16", inputs=samples)
    assert result.verified
    (weight,) = result.to_proto().graph.initializer
    assert weight.data_type == onnx.TensorProto.FLOAT16


def test_the_packaged_model_comes_along(tmp_path: Path) -> None:
    files = importlib.resources.files("onnxcast_models") / "files"
    with importlib.resources.as_file(files / "digits_resnet_ts.onnx") as path:
        samples = path.with_suffix(".npz")
        output = tmp_path / "digits.onnx"
        done = run("optimize", path, "--dtype", "fp16", "--inputs", samples, "-o", output)
    assert done.returncode == 0, done.stderr


def test_nothing_else_lies_at_the_top() -> None:
    files = importlib.metadata.files("onnxcast") or []
    tops = {file.parts[0] for file in files if not file.parts[0].startswith((".", "onnxcast-"))}
    assert tops == {"onnxcast", "onnxcast_cli", "onnxcast_models"}
    assert {f"{top}/py.typed" for top in tops} <= {file.as_posix() for file in files}


def test_the_core_needs_no_torch() -> None:
    needed = importlib.metadata.requires("onnxcast") or []
    core = [line for line in needed if "extra ==" not in line]
    assert core
    assert not [line for line in core if line.startswith(("torch", "cupy", "nvidia", "tensorflow"))]
