"""The pytest plugin, in a pytest of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnxcast.verification.children import child_environment
from onnxcast_models.expectations import Expectations
from onnxcast_models.rows import Row


def run_pytest(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments]
    return subprocess.run(
        command, cwd=folder, env=child_environment(), capture_output=True, text=True, check=False
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with a test of its own and settings as strict as ours."""
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_other.py").write_text("def test_other():\n    assert True\n")
    (suite / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = --strict-config\n"
    )
    return suite


def test_each_model_and_mode_is_a_test(suite: Path, folder: Path) -> None:
    digest = {"name": "round_trip", "token": "none", "outcome": "written", "digest": "another"}
    Expectations(folder / "expected").update([Row.from_dict(digest)])
    ran = run_pytest(
        suite,
        f"--onnxcast-zoo={folder}",
        "--onnxcast-token=all-fp16",
        "--onnxcast-token=none",
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    told = set(re.findall(r"(\w+\.\w+::\S+ [A-Z]+)", ran.stdout))
    assert told >= {
        "product.onnx::all-fp16 PASSED",
        "product.onnx::none PASSED",
        "round_trip.onnx::all-fp16 PASSED",
        "round_trip.onnx::none FAILED",
        "test_other.py::test_other PASSED",
    }
    assert "the model or its samples are not those that the figures are expected of" in ran.stdout
    assert "1 failed, 4 passed" in ran.stdout


def test_tests_are_chosen_as_any_others(suite: Path, folder: Path) -> None:
    arguments = [f"--onnxcast-zoo={folder}", "--onnxcast-token=all@a5", "-k", "product"]
    ran = run_pytest(suite, *arguments)
    assert ran.returncode == 0, ran.stdout
    assert "product.onnx::all-bf16@ascend950 PASSED" in ran.stdout
    assert "1 passed, 2 deselected" in ran.stdout


def test_wrong_options_are_told_in_one_line(suite: Path, folder: Path) -> None:
    ran = run_pytest(suite, f"--onnxcast-zoo={suite}")
    assert ran.returncode == 4
    assert "no .onnx file in it" in ran.stderr
    ran = run_pytest(suite, f"--onnxcast-zoo={folder}", "--onnxcast-token=half")
    assert "unknown" in ran.stdout + ran.stderr or "half" in ran.stdout + ran.stderr
    assert ran.returncode != 0


def test_without_the_option_nothing_is_imported(suite: Path) -> None:
    (suite / "test_other.py").write_text(
        "import sys\n\n"
        "def test_other():\n"
        "    assert 'onnxcast_models.pytest_plugin' in sys.modules\n"
        "    heavy = {'numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'scipy', 'onnxcast'}\n"
        "    assert not heavy & set(sys.modules)\n"
        "    ours = [name for name in sys.modules if name.startswith('onnxcast_models.')]\n"
        "    assert ours == ['onnxcast_models.pytest_plugin']\n"
    )
    ran = run_pytest(suite, "-p", "no:hypothesispytest")
    assert ran.returncode == 0, ran.stdout
