"""Samples in the JSON that Polygraphy's ``--save-inputs`` writes.

A list of samples, each an object from input names to arrays. An array is an object whose ``array``
is an ``.npy`` file in base64 (before version 0.20 in latin-1); ``polygraphy_class`` says
``ndarray``. Source: Polygraphy, ``polygraphy/json/serde.py``.
"""

import base64
import binascii
import io
import json
import pathlib
from typing import Any

import numpy as np

from onnxcast.verification.values import Array, Value

__all__ = ["read_samples"]

_MAGIC = (b"\x93NUMPY", b"PK")
"""How an ``.npy`` file begins, and an ``.npz``."""


def read_samples(path: pathlib.Path) -> list[dict[str, Value]]:
    """Read all samples of a file.

    Raises:
        OSError, ValueError, TypeError: It cannot be read, or is something else.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    samples = content if isinstance(content, list) else [content]
    if not samples or not all(isinstance(sample, dict) for sample in samples):
        raise TypeError("it holds no list of samples; save it by Polygraphy's --save-inputs")
    return [{name: _array(name, value) for name, value in sample.items()} for sample in samples]


def _array(name: str, value: Any) -> Array:
    if not isinstance(value, dict) or not isinstance(value.get("array"), str):
        raise TypeError(f"{name!r} is no array; save it by Polygraphy's --save-inputs")
    text = value["array"]
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = text.encode("latin-1")
    if not data.startswith(_MAGIC):  # numpy would take it for pickled objects
        raise TypeError(f"{name!r} is no array; save it by Polygraphy's --save-inputs")
    loaded = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    return next(iter(loaded.values()))  # old versions made an archive of one
