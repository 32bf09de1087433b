"""Each example is run as its user would, and what it writes is looked at."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto

from tests.exports.folders import DATA, write_folder

pytestmark = pytest.mark.export

FOLDER = Path(__file__).parents[2] / "models" / "examples"

NARROW = {TensorProto.FLOAT16, TensorProto.BFLOAT16}

MATMUL = """<ir_version: 10, opset_import: ["" : 21]>
g (int32[4] n, float[4] x) => (float[4] y, float[4] z)
<float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}> {
    f = Cast <to = 1> (n) y = Mul (f, x) z = MatMul (x, w)
}"""


def run(name: str, folder: Path, *arguments: object) -> str:
    command = [sys.executable, FOLDER / name, *arguments]
    ran = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, "OLIVE_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def types_of(path: Path) -> set[int]:
    """Types of the weights."""
    return {each.data_type for each in onnx.load(path, load_external_data=False).graph.initializer}


def casts_of(path: Path) -> int:
    return sum(node.op_type == "Cast" for node in onnx.load(path).graph.node)


def loads(path: Path) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(path, full_check=True)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_every_example_is_short_and_has_a_test() -> None:
    tests = Path(__file__).read_text()
    for path in FOLDER.iterdir():
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        assert len(lines) <= 15, path.name
        assert f'run("{path.name}"' in tests


def test_a_torch_program(tmp_path: Path) -> None:
    said = run("torch_program.py", tmp_path)
    assert float(said.split()[-1]) < 1e-2
    assert types_of(tmp_path / "program.onnx") & NARROW
    loads(tmp_path / "program.onnx")


def test_a_torch_script(tmp_path: Path) -> None:
    said = run("torch_script.py", tmp_path)
    assert float(said.split()[-1]) < 1e-2
    assert types_of(tmp_path / "scripted.fp16.onnx") == {TensorProto.FLOAT16}
    loads(tmp_path / "scripted.fp16.onnx")


def test_an_onnxscript_model(tmp_path: Path) -> None:
    run("onnxscript_model.py", tmp_path)
    assert casts_of(tmp_path / "attention.onnx") > 0
    rng = np.random.default_rng(0)
    shapes = {"query": (4, 8), "key": (6, 8), "value": (6, 8)}
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    (found,) = loads(tmp_path / "attention.onnx").run(None, feeds)
    scores = np.exp(feeds["query"] @ feeds["key"].T)
    wanted = scores / scores.sum(-1, keepdims=True) @ feeds["value"]
    np.testing.assert_allclose(found, wanted, atol=2e-2)


def test_a_sklearn_model(tmp_path: Path) -> None:
    from sklearn.datasets import load_iris

    run("sklearn_model.py", tmp_path)
    assert types_of(tmp_path / "iris.onnx") & NARROW
    flowers = load_iris()
    feeds = {"X": flowers.data.astype(np.float32)}
    labels, chances = loads(tmp_path / "iris.onnx").run(None, feeds)
    assert (labels == flowers.target).mean() > 0.95
    assert set(chances[0]) == {0, 1, 2}


def test_a_sequence_of_passes(tmp_path: Path) -> None:
    source, result = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(onnx.parser.parse_model(MATMUL), source)
    run("pass_sequence.py", tmp_path, source, result)
    assert types_of(result) == {TensorProto.FLOAT16}
    loads(result)


def test_a_workflow_of_olive(tmp_path: Path) -> None:
    source, output = tmp_path / "source.onnx", tmp_path / "made"
    onnx.save(onnx.parser.parse_model(MATMUL), source)
    run("olive_workflow.py", tmp_path, source, output)
    assert types_of(output / "model.onnx") == {TensorProto.FLOAT16}
    loads(output / "model.onnx")


def test_a_folder_of_optimum(tmp_path: Path) -> None:
    source, output = tmp_path / "decoder", tmp_path / "narrow"
    source.mkdir()
    net = write_folder(source)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    said = run("optimum_folder.py", tmp_path, source, output)
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    models = {path.name for path in output.glob("*.onnx")}
    assert models == {path.name for path in source.glob("*.onnx")}
    assert (output / "config.json").read_bytes() == before["config.json"]
    (data,) = {path for path in output.iterdir() if path.name not in {*models, "config.json"}}
    assert data.stat().st_size < 0.6 * len(before[DATA])
    assert len(said.splitlines()) == len(models) + 1
    with torch.no_grad():
        tokens, *past = net.args
        empty = [each[:, :, :, :0] for each in past]
        wanted = {True: net.module(tokens, *past), False: net.module(tokens, *empty)}
    session = loads(output / "decoder_model_merged.onnx")
    for cached, outputs in wanted.items():
        feeds = dict(zip(net.inputs, (each.numpy() for each in net.args), strict=True))
        found = session.run(None, {**feeds, "use_cache_branch": np.array([cached])})
        for one, other in zip(outputs, found, strict=True):
            assert np.abs(one.numpy() - other).max() <= 1e-2 * one.abs().max()
