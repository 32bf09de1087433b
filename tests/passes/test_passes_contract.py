import importlib
import re
from pathlib import Path

import onnx_ir as ir
import pytest

import onnxcast.passes
from onnxcast import passes
from tests import golden

MODULES = {
    name: importlib.import_module(getattr(passes, name).__module__) for name in passes.__all__
}

# What went wrong in earlier passes of this kind; each has a test that bears its name.
TRAPS = [
    "self-cycle of the new Cast",
    "scalar against tensor",
    "predicate kept",
    "load and store sides",
    "delegation",
    "single-loader shrink",
    "all initializers visited",
]


@pytest.mark.parametrize("name", passes.__all__)
def test_a_pass_is_named_like_its_module_and_works_in_place(name: str) -> None:
    stem = MODULES[name].__name__.rpartition(".")[2]
    assert name == "".join(word.capitalize() for word in stem.split("_")) + "Pass"
    assert issubclass(getattr(passes, name), ir.passes.InPlacePass)
    assert name in MODULES[name].__all__


@pytest.mark.parametrize("name", passes.__all__)
def test_a_pass_opens_with_what_it_does_to_an_example(name: str) -> None:
    text = MODULES[name].__doc__ or ""
    assert re.search(r"^Before::\n\n    ", text, re.MULTILINE)
    assert re.search(r"^After.*::\n\n    ", text, re.MULTILINE)


def test_every_module_of_the_room_is_a_pass() -> None:
    found = {
        path.stem for folder in onnxcast.passes.__path__ for path in Path(folder).glob("[!_]*.py")
    }
    assert found == {module.__name__.rpartition(".")[2] for module in MODULES.values()}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_known_trap_has_a_test_of_its_name(trap: str) -> None:
    texts = [path.read_text() for path in golden.FOLDER.glob("*.cases")]
    tests = [path.read_text() for path in golden.FOLDER.glob("test_*.py")]
    in_cases = any(f"\n== {trap}" in f"\n{text}" for text in texts)
    in_tests = any(f"def test_{trap.replace(' ', '_')}" in text for text in tests)
    assert in_cases or in_tests
