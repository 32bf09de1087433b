"""Files that appear whole or not at all: written beside their target, fsynced, renamed."""

__all__ = ["open_beside", "settle"]

import os
import secrets
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO


def open_beside(target: Path, undo: ExitStack) -> BinaryIO:
    """Open a new file in the folder of `target`; `undo` closes and removes it."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    file = open(path, "xb")  # noqa: SIM115 - `undo` closes it
    undo.callback(path.unlink, missing_ok=True)
    undo.callback(_drop, file)
    return file


def _drop(file: BinaryIO) -> None:
    """Close `file`, whatever becomes of what it still holds."""
    with suppress(OSError):  # the disk is full
        file.close()


def settle(file: BinaryIO, target: Path) -> None:
    """Bring `file` to the disk and let it replace `target`, whose permissions it takes."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    if target.exists():
        shutil.copymode(target, file.name)
    os.replace(file.name, target)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # no other system can open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
