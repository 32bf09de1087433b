"""Runs every code block of the pages: `pytest docs`.

Blocks of one page share a folder, with the packaged model in it, and the names of its Python.
A block of ``console`` has commands after ``$`` and what they print; ``...`` stands for anything.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
SET_UP = "pip install onnxcast"
"""The one command that is not run: the installed wheel has a test of its own."""

_COMMAND = re.compile(r"^\$ (.*?<<'(\w+)'\n(?:.*\n)*?\2$|.*)\n?((?:(?!\$ ).*\n?)*)", re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_shell(example: Example) -> None:
    """Run a block that shows no output: it must succeed."""
    if example.parsed.strip() != SET_UP:
        subprocess.run(["bash", "-euc", example.parsed], check=True)


def run_console(example: Example) -> str | None:
    """Run the commands of a block and compare what they print; tell the first difference."""
    code = 0
    for command, _, expected in _COMMAND.findall(example.parsed):
        ran = subprocess.run(
            ["bash", "-c", f"(exit {code}); {command}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        code = ran.returncode
        if not doctest.OutputChecker().check_output(expected, ran.stdout, _FLAGS):
            return f"$ {command}\nprinted (exit code {code})\n{ran.stdout}\nnot\n{expected}"
    return None


def set_up(namespace: dict[str, Any]) -> None:
    """Make the page's folder the current one, and let its commands find this interpreter's."""
    folder = tempfile.TemporaryDirectory()
    namespace["__folder"], namespace["__before"] = folder, Path.cwd()
    for path in (ROOT / "models" / "files").glob("digits_resnet_ts.*"):
        shutil.copy(path, folder.name)
    os.chdir(folder.name)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["COLUMNS"] = "80"


def tear_down(namespace: dict[str, Any]) -> None:
    """Leave the page's folder, and remove it."""
    os.chdir(namespace["__before"])
    namespace["__folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(),
        CodeBlockParser("console", run_console),
        CodeBlockParser("sh", run_shell),
    ],
    patterns=["*.md"],
    excludes=["_build/*", "generated/**"],
    setup=set_up,
    teardown=tear_down,
).pytest()
