"""How the command is started, what that costs, and how it ends."""

import importlib.metadata
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import onnxcast
from onnxcast_cli import main
from tests.cli.conftest import Command

SCRIPT = shutil.which("onnxcast", path=sysconfig.get_path("scripts"))


def test_the_module_and_the_script_do_the_same(perceptron: Path) -> None:
    assert SCRIPT is not None, "the package is not installed"
    starts = [[sys.executable, "-m", "onnxcast_cli"], [SCRIPT]]
    runs = [
        subprocess.run(
            [*start, "inspect", str(perceptron)], capture_output=True, text=True, check=True
        )
        for start in starts
    ]
    assert runs[0].stdout == runs[1].stdout
    assert "MatMul" in runs[0].stdout
    assert [run.stderr for run in runs] == ["", ""]


def test_the_module_hands_on_the_exit_code(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "onnxcast_cli", "inspect", str(tmp_path / "none.onnx")]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("code", "light"),
    [
        ("import onnxcast", "onnx onnx_ir onnxscript onnxruntime scipy"),
        (
            "from onnxcast_cli import main; assert main(['--version']) == 0",
            "onnx onnx_ir onnxscript onnxruntime scipy",
        ),
        (
            "from onnxcast_cli import main; assert main(['zoo', 'list']) == 0",
            "onnx onnx_ir onnxscript onnxruntime scipy",
        ),
        ("import onnxcast.api", "onnxruntime scipy"),
    ],
)
def test_starting_imports_nothing_heavy(code: str, light: str) -> None:
    assert not set(light.split()) & _imported(code)


def _imported(code: str) -> set[str]:
    """The modules that a process has imported when it has run `code`."""
    check = f"import sys; {code}; print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


@pytest.mark.parametrize(
    ("token", "light"),
    [
        ("all-fp16", "onnxruntime onnxscript onnx.reference onnxcast.verified"),
        # Its plan leaves no choice, so that nothing is cut either.
        ("matmult-fp16", "onnxruntime onnxscript onnx.reference onnxcast.verified scipy"),
    ],
)
def test_converting_imports_nothing_that_it_has_no_use_for(
    perceptron: Path, tmp_path: Path, token: str, light: str
) -> None:
    output = tmp_path / "out.onnx"
    arguments = [
        "optimize",
        str(perceptron),
        "--fp32-cast",
        token,
        "--no-verify",
        "-o",
        str(output),
    ]
    loaded = _imported(f"from onnxcast_cli import main; assert main({arguments}) == 0")
    assert output.exists()
    assert "onnxcast.conversion" in loaded
    assert not set(light.split()) & loaded


def test_version(command: Command) -> None:
    assert command("--version").out == f"onnxcast {importlib.metadata.version('onnxcast')}\n"


@pytest.mark.parametrize("arguments", [(), ("zoo",)])
def test_a_group_alone_shows_its_help_as_bad_usage(
    command: Command, arguments: tuple[str, ...]
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert not ran.out
    assert ran.err.startswith("Usage: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("optimize",),
        ("verify",),
        ("inspect",),
        ("zoo",),
        ("zoo", "list"),
        ("zoo", "fetch"),
        ("zoo", "run"),
    ],
)
def test_every_help_has_examples_one_a_line(command: Command, arguments: tuple[str, ...]) -> None:
    ran = command(*arguments, "--help")
    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert "Example:" in lines or "Examples:" in lines
    assert any(line.startswith(f"onnxcast {' '.join(arguments)}") for line in lines)


def test_an_interrupt_is_one_line(
    command: Command, perceptron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(onnxcast, "optimize", interrupted)
    ran = command("optimize", perceptron)
    assert ran.code == 130
    assert ran.err.strip() == "onnxcast: error: interrupted"


def test_the_arguments_of_the_process_are_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["onnxcast", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("onnxcast ")
