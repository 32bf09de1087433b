"""What `tests.benchmarks.nodes` runs: load and save beside a whole optimise, and the start."""

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import onnx
import onnx_ir as ir
import pytest

import onnxcast
from tests.benchmarks.models import SHAPES, model

ROUNDS = {1_000: 9, 10_000: 9, 100_000: 3}
"""How often each size is run: small ones more, as what else the machine does counts more there."""

OPTIONS: dict[str, dict[str, Any]] = {"casts": {"fp32_cast": "none", "target": "ascend950"}}
"""What a shape is optimised with; all others become float16 wherever they can."""


Benchmark: TypeAlias = Any
"""The fixture of pytest-benchmark, which has no types."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models are; what is imported on first use is imported now."""
    path = tmp_path_factory.mktemp("models")
    onnx.save(model("blocks", 100), path / "small.onnx")
    optimise(path / "small.onnx", "blocks", path / "small.out.onnx")
    return path


def load_and_save(path: Path, out: Path) -> None:
    ir.save(ir.load(path), out)


def collect() -> None:
    """Collect what the rounds before left, so that none pays for another."""
    gc.collect()


def optimise(path: Path, shape: str, out: Path) -> dict[str, float]:
    options = OPTIONS.get(shape, {"fp32_cast": "all-fp16"})
    result = onnxcast.optimize(path, verify=False, **options)
    result.save(out, force=True)
    return result.report.seconds


@pytest.mark.parametrize("what", ["load + save", "optimise"])
@pytest.mark.parametrize("nodes", ROUNDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_nodes(benchmark: Benchmark, folder: Path, shape: str, nodes: int, what: str) -> None:
    path, out = folder / f"{shape}.{nodes}.onnx", folder / "out.onnx"
    if not path.exists():
        onnx.save(model(shape, nodes), path)
    benchmark.extra_info.update(shape=shape, nodes=nodes, what=what)
    if what == "optimise":
        seconds = benchmark.pedantic(
            optimise, (path, shape, out), setup=collect, rounds=ROUNDS[nodes]
        )
        benchmark.extra_info["seconds"] = seconds
    else:
        benchmark.pedantic(load_and_save, (path, out), setup=collect, rounds=ROUNDS[nodes])


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_start(benchmark: Benchmark, option: str) -> None:
    command = [sys.executable, "-m", "onnxcast_cli", option]
    benchmark.extra_info.update(what=option)
    benchmark.pedantic(
        subprocess.run, (command,), {"check": True, "capture_output": True}, rounds=5
    )
