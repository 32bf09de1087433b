import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]

TOKEN = ["--fp32-cast", "all-fp16"]


@pytest.fixture
def converted(command: Command, perceptron: Path) -> Path:
    output = perceptron.with_name("converted.onnx")
    assert command("optimize", perceptron, *TOKEN, "-o", output).code == 0
    return output


def test_what_is_to_be_done_ends_with_1_and_is_not_done(
    command: Command, perceptron: Path, samples: Path
) -> None:
    before = {path: path.read_bytes() for path in perceptron.parent.iterdir()}
    ran = command("optimize", "--check", perceptron, *TOKEN, "--inputs", samples)
    assert ran.code == 1
    assert ran.out == (f"{perceptron}: to be converted: 2 Casts added, 2 constants stored narrow\n")
    assert not ran.err
    assert {path: path.read_bytes() for path in perceptron.parent.iterdir()} == before


@pytest.mark.parametrize("verify", [[], ["--no-verify"]])
def test_what_is_done_ends_with_0(command: Command, converted: Path, verify: list[str]) -> None:
    ran = command("optimize", "--check", converted, *TOKEN, *verify)
    assert (ran.code, ran.out, ran.err) == (0, f"{converted}: nothing to do\n", "")


def test_other_options_are_something_to_do(command: Command, converted: Path) -> None:
    ran = command("optimize", "--check", converted, *TOKEN, "--target", "tensorrt")
    assert ran.code == 1
    assert "only names, or its record of what made it" in ran.out


def test_a_model_that_cannot_be_made_has_its_code(command: Command, overflow: Path) -> None:
    ran = command("optimize", "--check", overflow, *TOKEN, "--tolerance", "0", "--no-repair")
    assert ran.code == 1
    assert ran.err.startswith("onnxcast: error: output ")


def test_several_are_all_looked_at_and_the_worst_counts(
    command: Command, perceptron: Path, converted: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    ran = command("optimize", "--check", broken, perceptron, converted, *TOKEN)
    assert ran.code == 2
    assert ran.err.startswith(f"onnxcast: error: {broken}: ")
    assert ran.err.count(str(broken)) == 1
    assert [line.split(":")[0] for line in ran.out.splitlines()] == [
        str(perceptron),
        str(converted),
    ]
    assert command("optimize", "--check", perceptron, converted, *TOKEN).code == 1
    assert command("optimize", "--check", converted, converted, *TOKEN).code == 0


def test_json_has_a_record_for_each(command: Command, perceptron: Path, converted: Path) -> None:
    ran = command("optimize", "--check", perceptron, converted, *TOKEN, "--json")
    records = json.loads(ran.out)
    assert [(each["model"], each["modified"]) for each in records] == [
        (str(perceptron), True),
        (str(converted), False),
    ]
    assert records[0]["report"]["token"] == "all-fp16"


@pytest.mark.parametrize("option", [["-o", "x.onnx"], ["--report", "x.json"]])
def test_nothing_can_be_written_with_it(
    command: Command, perceptron: Path, option: list[str]
) -> None:
    ran = command("optimize", "--check", perceptron, *option)
    assert ran.code == 2
    assert "--check together with --output or --report" in ran.err


def test_the_hook_runs_as_pre_commit_runs_it(
    perceptron: Path, converted: Path, tmp_path: Path
) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    hook = dict(re.findall(r"^(?:- |  )(\w+): (.*)$", text, re.MULTILINE))
    assert hook["language"] == "python"
    repository = tmp_path / "repository"
    repository.mkdir()
    for name, source in {"wide.onnx": perceptron, "narrow.onnx": converted}.items():
        shutil.copy(source, repository / name)
    onnx.checker.check_model(repository / "wide.onnx")
    program, *words = shlex.split(hook["entry"])
    entry = [str(Path(sys.executable).with_name(program)), *words, *TOKEN]
    files = {path.name for path in repository.iterdir() if re.search(hook["files"], path.name)}
    assert files == {"wide.onnx", "narrow.onnx"}
    for chosen, code in ((["narrow.onnx"], 0), (["narrow.onnx", "wide.onnx"], 1)):
        ran = subprocess.run(
            [*entry, *chosen], cwd=repository, capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, ran.stderr
