"""Files of the cache: whole or not there."""

__all__ = ["keep", "sha256"]

import hashlib
import os
from pathlib import Path


def keep(path: Path, data: bytes) -> None:
    """Write a file in one step, unless it holds just that.

    Whoever reads at the same time sees all of it or none.
    """
    if path.exists() and path.read_bytes() == data:
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


def sha256(data: bytes) -> str:
    """In hex."""
    return hashlib.sha256(data).hexdigest()
