"""Whatever happens while a model is replaced: the old one is whole, or the new one is."""

import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnxcast.errors import RefusedError
from onnxcast.files import commit
from tests.files.committing import FORMATS, converted
from tests.files.test_layout import SIZE, write_shared

ROOT = Path(__file__).parents[2]
LETTERS = "abcdefghijkl"
SAMPLE = {"x": np.random.default_rng(0).standard_normal((1, SIZE), np.float32)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_shared(tmp_path, {"source.onnx": LETTERS})
    return tmp_path / "source.onnx"


def run(path: Path) -> np.ndarray:
    onnx.checker.check_model(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, SAMPLE)
    assert isinstance(result, np.ndarray)
    return result


def wanted(source: Path) -> dict[ir.DataType, np.ndarray]:
    """What each of the two models gives."""
    folder = source.parent / "wanted"
    folder.mkdir()
    results = {}
    for dtype in FORMATS:
        commit(converted(source, dtype), folder / f"{dtype}.onnx")
        results[dtype] = run(folder / f"{dtype}.onnx")
    first, second = results.values()
    assert not np.array_equal(first, second)
    return results


def killed(source: Path, output: Path, seconds: Iterator[float]) -> None:
    """Let a process overwrite `output` for a while, and kill it where it stands."""
    command = [sys.executable, "-m", "tests.files.committing", str(source), str(output)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(next(seconds))
        process.kill()


@pytest.mark.parametrize("times", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_a_model_is_whole_whenever_its_writer_is_killed(source: Path, times: int) -> None:
    results = wanted(source)
    moments = random.Random(times)
    output = source.parent / "out.onnx"
    found = set()
    for _ in range(times):
        killed(source, output, iter(lambda: moments.uniform(0.0, 0.3), None))
        numbers = run(output)
        matching = [dtype for dtype in FORMATS if np.array_equal(numbers, results[dtype])]
        assert len(matching) == 1
        found.add(matching[0])
    assert times < 50 or found == set(FORMATS)
    # What the dead left behind is hidden, and the next run is not disturbed by it.
    commit(converted(source, FORMATS[0]), output)
    np.testing.assert_array_equal(run(output), results[FORMATS[0]])
    assert all(
        path.name.startswith((".out", "out", "all", "source", "wanted"))
        for path in source.parent.iterdir()
    )


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Files that cannot grow: what the system says then is as little expected as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("external", [True, False])
def test_a_full_disk_leaves_the_old_model(
    source: Path, external: bool, request: pytest.FixtureRequest
) -> None:
    results, output = wanted(source), source.parent / "out.onnx"
    commit(converted(source, FORMATS[0]), output, external=external)
    before = sorted(source.parent.iterdir())
    request.getfixturevalue("full_disk")
    with pytest.raises(RefusedError, match="cannot be written \\(File too large\\)"):
        commit(converted(source, FORMATS[1]), output, external=external)
    assert sorted(source.parent.iterdir()) == before
    np.testing.assert_array_equal(run(output), results[FORMATS[0]])


def test_a_disk_that_is_really_full_leaves_the_old_model(source: Path) -> None:
    """A file system of 160 kB, which takes one model of 100 kB and not two."""
    disk = source.parent / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=160k none {disk}"
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*alone, mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system of our own can be mounted here")
    fill = f"{sys.executable} -m tests.files.filling {source} {disk}/out.onnx"
    ran = subprocess.run(
        [*alone, f"{mount} && {fill}"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "cannot be written (No space left on device)" in ran.stdout
    assert ran.stdout.endswith("old\n")
