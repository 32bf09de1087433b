"""Telling files from what only has a name in the file system."""

__all__ = ["is_special"]

from pathlib import Path


def is_special(path: Path) -> bool:
    """Whether `path` is there and is neither a file nor a folder: a pipe, a socket or a device.

    Reading one may wait forever, and replacing one breaks what others use it for.
    """
    return path.exists() and not path.is_file() and not path.is_dir()
