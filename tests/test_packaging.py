"""What is packaged is what is on disk, under the names that are meant."""

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
FOLDERS = {"onnxcast": "onnxcast", "onnxcast_cli": "cli", "onnxcast_models": "models"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_on_disk_is_packaged(project: dict[str, Any]) -> None:
    settings = project["tool"]["setuptools"]
    found = [
        ".".join([name, *init.parent.relative_to(ROOT / folder).parts])
        for name, folder in FOLDERS.items()
        for init in (ROOT / folder).rglob("__init__.py")
    ]
    assert settings["package-dir"] == FOLDERS
    assert settings["packages"] == sorted(found)


def test_every_module_has_its_layer(project: dict[str, Any]) -> None:
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("exhaustive"))
    named = [name for layer in layers for name in re.split(r" [|:] ", layer)]
    paths = [path for path in (ROOT / "onnxcast").iterdir() if path.suffix == ".py"]
    paths += [init.parent for init in (ROOT / "onnxcast").glob("*/__init__.py")]
    assert sorted(named) == sorted({path.stem for path in paths} - {"__init__"})


@pytest.mark.parametrize("name", ["cli", "models", "tests"])
def test_folders_are_no_modules_outside_the_tree(name: str, tmp_path: Path) -> None:
    code = f"import importlib.util; print(importlib.util.find_spec({name!r}))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == "None\n"


@pytest.mark.parametrize("name", ["cli", "models"])
def test_siblings_are_imported_by_their_relative_name(name: str) -> None:
    for path in (ROOT / name).glob("*.py"):
        assert not re.search(r"^\s*(from|import) (cli|models)\b", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", FOLDERS)
def test_packages_are_typed_and_installed(name: str) -> None:
    assert (ROOT / FOLDERS[name] / "py.typed").is_file()
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).is_file()


@pytest.mark.slow
def test_the_wheel_holds_three_names_and_the_data(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for folder in FOLDERS.values():
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    command = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--quiet"]
    subprocess.run([*command, "-w", str(tmp_path)], cwd=tree, check=True)
    (path,) = tmp_path.glob("onnxcast-*.whl")
    assert path.stat().st_size < 1_500_000, "docs/start.md states the size"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(FOLDERS)
    for name, folder in FOLDERS.items():
        wanted = [
            f"{name}/{path.relative_to(tree / folder).as_posix()}"
            for path in (tree / folder).rglob("*")
            if path.is_file()
        ]
        assert not set(wanted) - set(names)
