"""Weights of a model that are left in other files, as told by a file beside the model."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["Place", "Weights", "forget", "mapped", "tell"]

Weights = dict[str, "np.memmap[tuple[int, ...], np.dtype[np.float32]]"]

Place = tuple[str, int, Sequence[int]]
"""The file that holds a float32 tensor, where in it that begins, and its shape."""


def tell(path: pathlib.Path, places: Mapping[str, Place]) -> None:
    """Write where the weights of the model at `path` are, by name."""
    _beside(path).write_text(json.dumps(places), encoding="utf-8")


def forget(path: pathlib.Path) -> None:
    """Let the model at `path` have all its weights itself."""
    _beside(path).unlink(missing_ok=True)


def mapped(path: pathlib.Path) -> Weights:
    """The weights of the model at `path` that were left where they are."""
    if not _beside(path).exists():
        return {}
    places = json.loads(_beside(path).read_text(encoding="utf-8"))
    return {
        name: np.memmap(file, "<f4", "r", offset, tuple(shape))
        for name, (file, offset, shape) in places.items()
    }


def _beside(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{path.name}.weights.json")
