"""What CONTRIBUTING shows is done in a copy of the tree, in three files or fewer, and holds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
NEW_FILE = r"^`([^`]+)`[^`\n]*:\n\n```\w+\n(.*?)^```$"
FOLDERS = {"onnxcast": "onnxcast", "cli": "onnxcast_cli", "models": "onnxcast_models"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder, name in FOLDERS.items():
        shutil.copytree(ROOT / folder, tmp_path / folder)
        if name != folder:
            (tmp_path / name).symlink_to(folder)
    shutil.copytree(ROOT / "tests", tmp_path / "tests")
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def apply(title: str, tree: Path) -> list[str]:
    """Write the files that a section shows, apply its patches, and return what was touched."""
    files = re.findall(
        r"^`([^`]+)`[^`\n]*:\n\n```\w+\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL
    )
    for name, text in files:
        assert not (tree / name).exists()
        (tree / name).write_text(text)
    patches = re.findall(r"^```diff\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)
    for patch in patches:
        command = ["patch", "--strip=1", "--fuzz=0", "--quiet"]
        subprocess.run(command, cwd=tree, input=patch, text=True, check=True)
    patched = re.findall(r"^\+\+\+ b/(.+)$", "\n".join(patches), re.MULTILINE)
    return [name for name, _ in files] + patched


def run(tree: Path, *arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


PASSES = ["passes_contract", "golden", "docstrings"]
OF_THE_PASS = "DropDoubleNeg or double_neg or every_module"


@pytest.mark.parametrize(
    ("title", "tests"),
    [
        ("Add a pass", [*(f"tests/passes/test_{n}.py" for n in PASSES), "-k", OF_THE_PASS]),
        ("Add a target", ["tests/targets/test_acme.py", "tests/targets/test_registry.py"]),
    ],
)
def test_it_takes_three_files_and_holds(title: str, tests: list[str], tree: Path) -> None:
    touched = apply(title, tree)
    assert 1 <= len(touched) <= 3
    added = [name for name in touched if name.endswith(".py")]
    run(tree, "ruff", "check", "--quiet", *added)
    run(tree, "ruff", "format", "--check", "--quiet", *added)
    run(tree, "mypy", *added)
    run(tree, "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_a_model_takes_three_files_and_is_as_expected(tree: Path) -> None:
    touched = apply("Add a model to the zoo", tree)
    run(tree, "ruff", "check", "--quiet", *touched)
    run(tree, "mypy", *touched)
    command = ("onnxcast_cli", "zoo", "run", "edge_delta", "--cache", str(tree / "cache"))
    run(tree, *command, "--update")
    (expected,) = (tree / "models" / "expected").glob("edge_delta.json")
    assert len([*touched, expected]) == 3
    run(tree, *command)
