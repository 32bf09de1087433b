import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import onnxcast

pytestmark = pytest.mark.export

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,64] x) => (float[2,64] y) { [product] h = MatMul (x, w) [chances] y = Softmax (h) }
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with external data in a folder of its own."""
    proto = onnx.parser.parse_model(TEXT)
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="model.data")
    return folder / "model.onnx"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the module says, in a process of its own: to import Olive changes logging."""
    code = """
import json
from olive.hardware import DEFAULT_CPU_ACCELERATOR
from onnxcast.olive import OnnxCast, package_config

options = OnnxCast.default_config(DEFAULT_CPU_ACCELERATOR)
defaults = {name: each.default_value for name, each in options.items()}
print(json.dumps({"package": package_config(), "defaults": defaults}))
"""
    found: dict[str, Any] = json.loads(ran([sys.executable, "-c", code]).stdout)
    return found


def ran(command: list[str], *, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OLIVE_DISABLE_TELEMETRY": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr + run.stdout
    return run


def workflow(
    model: Path, folder: Path, package: dict[str, Any], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run Olive's command on a model, with the pass alone."""
    config = {
        "input_model": {
            "type": "OnnxModel",
            "model_path": str(model.parent),
            "onnx_file_name": model.name,
        },
        "passes": {"narrow": {"type": "OnnxCast", **options}},
        "output_dir": str(folder / "made"),
        "cache_dir": str(folder / "cache"),
    }
    files = {"workflow.json": config, "package.json": package}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    paths = ["--config", str(folder / "workflow.json")]
    paths += ["--package-config", str(folder / "package.json")]
    return ran([sys.executable, "-m", "olive", "run", *paths])


def test_olives_command_runs_the_pass_on_samples_and_external_data(
    model: Path, tmp_path: Path, told: dict[str, Any]
) -> None:
    sample: dict[str, Any] = {"x": np.random.default_rng(1).normal(size=(2, 64)).astype(np.float32)}
    np.savez(tmp_path / "samples.npz", **sample)
    options: dict[str, Any] = {
        "fp32_cast": "matmult",
        "target": "ascend950",
        "keep_ops": ["Softmax"],
    }
    workflow(model, tmp_path, told["package"], **options, inputs=str(tmp_path / "samples.npz"))
    (made,) = (tmp_path / "made").rglob("*.onnx")
    weights = {each.name: each.data_type for each in onnx.load(made).graph.initializer}
    assert TensorProto.BFLOAT16 in weights.values()
    assert list(made.parent.glob("*.data"))
    again = onnxcast.optimize(made, **options, inputs=sample)
    assert (again.verified, again.modified) == (True, False)


def test_what_does_not_verify_fails_the_pass_with_its_cause(
    model: Path, tmp_path: Path, told: dict[str, Any]
) -> None:
    options = {"fp32_cast": "all-fp16", "tolerance": 1e-9, "repair": False}
    said = workflow(model, tmp_path, told["package"], **options)
    assert "keep that node or its op wide, or raise the tolerance" in said.stderr + said.stdout
    assert not list((tmp_path / "made").rglob("*.onnx"))


def test_the_options_are_those_of_optimize_with_the_same_defaults(told: dict[str, Any]) -> None:
    found, known = told["defaults"], inspect.signature(onnxcast.optimize).parameters
    wanted = {name: known[name].default for name in found}
    assert found == {name: [] if each == () else each for name, each in wanted.items()}
    left_out = {"model", "policy", "plan", "progress", "op_block_list", "node_block_list"}
    assert not left_out & set(found)


def test_olives_own_passes_stay_in_the_configuration(told: dict[str, Any]) -> None:
    passes = told["package"]["passes"]
    assert passes["OnnxCast"]["module_path"] == "onnxcast.olive.OnnxCast"
    assert "OnnxConversion" in passes
