"""Small models as files, and the command run in this process."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnxcast_cli import main
from tests.zoo_folder import break_jobs, folder

__all__ = ["break_jobs", "folder"]

PERCEPTRON = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n,8] x) => (float[n,4] y) {
   [product] h = MatMul (x, w)
   [sum] s = Add (h, b)
   [limit] y = Relu (s)
}
"""

# In float16 the first product is infinite for the samples of `overflow_samples`.
OVERFLOW = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4] x, float[4] k, float[4] s) => (float[4] y, float[4] z) {
   [product] p = Mul (x, k)
   [scaled] y = Mul (p, s)
   [harmless] z = Add (x, k)
}
"""


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> Ran:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def perceptron(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(PERCEPTRON)
    for name, shape in {"w": (8, 4), "b": (4,)}.items():
        array = rng.standard_normal(shape, dtype=np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    path = tmp_path / "perceptron.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.random.default_rng(1).standard_normal((2, 8), dtype=np.float32))
    return path


@pytest.fixture
def overflow(tmp_path: Path) -> Path:
    path = tmp_path / "overflow.onnx"
    onnx.save(onnx.parser.parse_model(OVERFLOW), path)
    return path


@pytest.fixture
def overflow_samples(tmp_path: Path) -> Path:
    path = tmp_path / "overflow.npz"
    thousand = np.full(4, 1000, np.float32)
    np.savez(path, x=thousand, k=thousand, s=np.full(4, 1e-3, np.float32))
    return path
