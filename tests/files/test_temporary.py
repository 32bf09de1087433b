"""Temporary folders go, however it comes."""

import contextlib
import shutil
from pathlib import Path

import pytest

from onnxcast.files.temporary import TemporaryFolder


def test_a_folder_goes_with_all_in_it() -> None:
    with TemporaryFolder() as name:
        Path(name, "file").touch()
    assert not Path(name).exists()


@pytest.mark.parametrize("disturbance", [KeyboardInterrupt(), OSError("not empty")])
def test_a_folder_goes_whose_removal_is_disturbed(
    monkeypatch: pytest.MonkeyPatch, disturbance: BaseException
) -> None:
    whole, calls = shutil.rmtree, []

    def interrupted_once(path: str, *_args: object, **_kwargs: object) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise disturbance
        whole(path)

    folder = TemporaryFolder()
    Path(folder.name, "file").touch()
    monkeypatch.setattr(shutil, "rmtree", interrupted_once)
    raised = pytest.raises(KeyboardInterrupt)
    with raised if isinstance(disturbance, KeyboardInterrupt) else contextlib.nullcontext():
        folder.cleanup()
    assert len(calls) == 2
    assert not Path(folder.name).exists()
