"""Getting a model of the catalogue into a folder, with its samples and labels beside it.

That folder is one of models like any other: ``NAME.onnx``, ``NAME.npz``, ``NAME.1.npz``,
``NAME.labels.npz``.
"""

__all__ = ["default_cache", "fetch", "keep_built"]

import dataclasses
import importlib
import importlib.util
import io
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from onnxcast import RefusedError

from .cache import keep, sha256
from .entries import Entry, Exported, Installed, Made, Packaged, Wheel
from .recipes.built import Array, Built, Sample
from .recipes.samples import SAMPLES
from .subjects import Subject, subject_of
from .wheels import member_of

_FILES = Path(__file__).parent / "files"
_SAMPLES = 2
_EXPORT_SECONDS = 900


def default_cache() -> Path:
    """Where models are kept."""
    return Path.home() / ".cache" / "onnxcast"


def fetch(entry: Entry, cache: Path) -> Subject:
    """Return a model with its samples; what `cache` does not hold is downloaded or built.

    Args:
        entry: Which one.
        cache: A folder, made if it is not there; wheels are kept in it too.

    Raises:
        RefusedError: The model cannot be had: the text says what is missing, and how to get it.
    """
    path = cache / f"{entry.name}.onnx"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(entry, path)
    except OSError as error:
        raise RefusedError(
            f"{entry.name}: cannot be kept in {cache} ({error.strerror or error}); "
            "wanted a folder to write in; name one by --cache"
        ) from None
    subject = subject_of(path, entry.name)
    tolerance = None if entry.tolerance is None else entry.tolerance.value
    return dataclasses.replace(subject, tolerance=tolerance, identity=_identity(entry))


def _identity(entry: Entry) -> str:
    """That of an export is its recipe's: sums of floats depend on the processor."""
    if not isinstance(entry.origin, Exported):
        return ""
    return sha256(_recipe(entry.origin) + entry.name.encode())[:16]


def _recipe(origin: Exported) -> bytes:
    return Path(__file__).parent.joinpath("recipes", f"{origin.module}.py").read_bytes()


def _put(entry: Entry, path: Path) -> None:
    """Put the files of a model where they belong, as far as they are not there."""
    origin = entry.origin
    if isinstance(origin, Packaged):
        for file in sorted(_FILES.glob(f"{Path(origin.file).stem}.*")):
            keep(path.with_name(file.name), file.read_bytes())
    elif isinstance(origin, Made):
        made = importlib.import_module(f".recipes.{origin.module}", __package__)
        keep_built(path, made.MODELS[entry.name]())
    elif isinstance(origin, Exported):
        _export(entry.name, origin, path)
    else:
        if not (path.exists() and sha256(path.read_bytes()) == origin.sha256):
            keep(
                path, _installed(origin) if isinstance(origin, Installed) else _wheel(origin, path)
            )
        maker = SAMPLES[entry.name]
        _keep_samples(path, [maker(np.random.default_rng(k), k) for k in range(_SAMPLES)])


def keep_built(path: Path, built: Built) -> None:
    """Keep what building a model gave, the model at `path`."""
    keep(path, built.model.SerializeToString(deterministic=True))
    _keep_samples(path, built.samples)
    _keep_labels(path, built.labels)


def _wheel(wheel: Wheel, path: Path) -> bytes:
    return member_of(wheel, path.parent / "wheels" / str(wheel))


def _installed(origin: Installed) -> bytes:
    found = importlib.util.find_spec(origin.package)
    assert found is not None, f"{origin.package} is a dependency"
    path = Path(str(found.origin)).parent / origin.member
    try:
        data = path.read_bytes()
    except OSError:
        raise RefusedError(
            f"{path}: not there; wanted a release of {origin.package} that brings it along"
        ) from None
    if sha256(data) != origin.sha256:
        raise RefusedError(
            f"{path}: has SHA-256 {sha256(data)}; wanted {origin.sha256}: this release of "
            f"{origin.package} has another model of that name"
        )
    return data


def _export(name: str, origin: Exported, path: Path) -> None:
    """Run a recipe in a process of its own, unless the cache has what this recipe made."""
    recipe = _recipe(origin)
    seal = path.with_suffix(".sealed")
    kept = path.read_bytes() if path.exists() and seal.exists() else None
    if kept is not None and seal.read_bytes() == sha256(kept + recipe).encode():
        return
    for package in origin.needs:
        if importlib.util.find_spec(package) is None:
            raise RefusedError(
                f"{name}: its recipe needs {', '.join(origin.needs)}, and {package} is not "
                "installed; install onnxcast[zoo], or put the model and its samples into a folder "
                "for --models"
            )
    command = [sys.executable, "-m", f"{__package__}.exporting", origin.module, name, str(path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_EXPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RefusedError(f"{name}: its recipe took more than {_EXPORT_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.split("\n") if line.strip()] or ["no cause given"]
        raise RefusedError(
            f"{name}: its recipe failed ({lines[-1].strip()[:200]}); wanted releases of "
            f"{', '.join(origin.needs)} that it knows"
        )
    keep(seal, sha256(path.read_bytes() + recipe).encode())


def _keep_samples(path: Path, samples: Iterable[Sample]) -> None:
    for k, sample in enumerate(samples):
        name = path.stem + (f".{k}" if k else "") + ".npz"
        keep(path.with_name(name), _npz(dict(sample)))


def _keep_labels(path: Path, labels: Iterable[Array]) -> None:
    named = {f"s{k}": array for k, array in enumerate(labels)}
    if named:
        keep(path.with_name(f"{path.stem}.labels.npz"), _npz(named))


def _npz(arrays: dict[str, Array]) -> bytes:
    buffer = io.BytesIO()
    # Uncompressed: the same bytes with every zlib. The stubs take any name for `allow_pickle`.
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
