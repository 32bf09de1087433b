"""What goes into a model and comes out of it, and how it crosses a process boundary.

An npz file holds arrays only, so sequences, absent optionals and maps are described by a manifest
stored beside the arrays. Nothing is ever pickled.
"""

import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Feeds", "Value", "is_foreign", "read_values", "write_values"]

Array: TypeAlias = npt.NDArray[np.generic]

Value: TypeAlias = Array | Sequence[Array] | None
"""A tensor, a sequence of tensors, or an absent optional."""

Feeds: TypeAlias = Mapping[str, Value]
"""One sample: the value of each input by name."""

_MANY = (list, tuple, dict)


def write_values(path: pathlib.Path, values: Mapping[str, object]) -> None:
    """Writes values to an npz file.

    Args:
        path: The file to write; its name must end in `.npz`.
        values: By name, an array, a list of arrays, None, or an ONNX map as onnxruntime gives it: a
            dict, stored as two arrays, keys and values. A list of maps becomes one flat list of
            such arrays. Element types that npz cannot hold are widened: bfloat16 and smaller floats
            to float32, 4-bit integers and smaller to 8 bits.
    """
    arrays: list[Array] = []
    manifest: list[tuple[str, str, int]] = []
    for name, value in values.items():
        items = _items(value)
        kind = "none" if value is None else "list" if isinstance(value, _MANY) else "array"
        manifest.append((name, kind, len(items)))
        arrays.extend(items)
    np.savez(path, *arrays, manifest=np.array(json.dumps(manifest)))


def read_values(path: pathlib.Path) -> dict[str, Value]:
    """Reads what `write_values` wrote; string tensors come back as unicode arrays."""
    values: dict[str, Value] = {}
    with np.load(path, allow_pickle=False) as file:
        arrays: Iterator[Array] = (file[f"arr_{index}"] for index in itertools.count())
        for name, kind, count in json.loads(str(file["manifest"])):
            items = list(itertools.islice(arrays, count))
            values[name] = items if kind == "list" else items[0] if kind == "array" else None
    return values


def is_foreign(dtype: np.dtype[np.generic]) -> bool:
    """Whether a type is not numpy's own but ml_dtypes', and so lost in an npz file."""
    return dtype.isbuiltin == 2


def _items(value: object) -> list[Array]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [np.array(list(value.keys())), np.array(list(value.values()))]
    if isinstance(value, list | tuple):
        return [item for element in value for item in _items(element)]
    return [_storable(np.asarray(value))]


def _storable(array: Array) -> Array:
    if array.dtype.kind == "O":  # strings, which npz could hold only by pickling
        return array.astype(str)
    if is_foreign(array.dtype):
        name = array.dtype.name
        return array.astype(
            np.float32 if "float" in name else np.int8 if name.startswith("int") else np.uint8
        )
    return array
