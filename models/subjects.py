"""Models to run, as files: those of a folder, each with the samples and labels beside it."""

__all__ = ["Subject", "find_subjects", "subject_of"]

import dataclasses
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from onnxcast import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A model to run.

    Attributes:
        name: Names its rows and files.
        model: Its path.
        samples: What it is run on: it is converted on the first, and the result is tried on the
            others. Empty for one that is made up.
        labels: An ``.npz`` with the labels of sample k as ``s<k>``, or None.
        tolerance: What passes; None for the default of the format.
        identity: What tells it from others where its bytes do not: those of an export are not the
            same on every machine. "" for the bytes.
    """

    name: str
    model: Path
    samples: tuple[Path, ...] = ()
    labels: Path | None = None
    tolerance: float | None = None
    identity: str = ""

    @property
    def digest(self) -> str:
        """A hash of the model file and its samples; "" if the model cannot be read."""
        if self.identity:
            return self.identity
        total = hashlib.sha256()
        try:
            for path in _files((self.model, *self.samples)):
                total.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError:
            return ""
        return total.hexdigest()[:16]


def find_subjects(folder: Path) -> list[Subject]:
    """The models of `folder`, by name.

    Taken are ``NAME.onnx`` in it, and the models of each folder in it that has ``test_data_set_*``
    folders too, as the ONNX model zoo lays them out.

    Raises:
        InputError: `folder` cannot be read or holds no model.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; wanted one with models")
    found = [subject_of(path, path.stem) for path in sorted(folder.glob("*.onnx"))]
    for each in sorted({path.parent for path in folder.glob("*/test_data_set_*")}):
        models = sorted(each.glob("*.onnx"))
        names = [each.name if len(models) == 1 else f"{each.name}.{path.stem}" for path in models]
        found += [subject_of(path, name) for path, name in zip(models, names, strict=True)]
    if not found:
        raise InputError(f"{folder}: no .onnx file in it; wanted a folder of models")
    return found


def subject_of(model: Path, name: str, *, samples: Path | None = None) -> Subject:
    """A model with what lies beside it.

    Args:
        model: Its path.
        name: What it is called.
        samples: A folder whose ``.npz`` files count, if there are any, instead of those beside it.
    """
    stem = model.stem
    found = _numbered(samples, name) if samples is not None else []
    found = found or _numbered(model.parent, stem) or _data_sets(model)
    labels = model.with_name(f"{stem}.labels.npz")
    return Subject(
        name=name,
        model=model.absolute(),
        samples=tuple(path.absolute() for path in found),
        labels=labels.absolute() if labels.exists() else None,
    )


def _numbered(folder: Path, stem: str) -> list[Path]:
    """``STEM.npz``, ``STEM.1.npz`` and so on."""
    pattern = re.compile(rf"{re.escape(stem)}(?:\.(\d+))?\.npz")
    found = ((pattern.fullmatch(path.name), path) for path in folder.glob("*.npz"))
    return [path for _, path in sorted((int(m[1] or 0), path) for m, path in found if m)]


def _data_sets(model: Path) -> list[Path]:
    """The ``test_data_set_*`` beside a model, which are its own if it is alone there."""
    if len(list(model.parent.glob("*.onnx"))) != 1:
        return []
    sets = (path for path in model.parent.glob("test_data_set_*") if path.is_dir())
    return sorted(sets, key=lambda path: (len(path.name), path.name))


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.pb")) if path.is_dir() else [path]
