"""The result store: a file of JSON lines, one row each, written as jobs end."""

__all__ = ["Store", "read_rows"]

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from onnxcast import InputError
from onnxcast.report import versions

from .rows import Row

_FORMAT = 1
_BEGINS = b'{"format": '


class Store:
    """Where the rows of a run are kept; what is there already is not run again.

    The first line names the versions of all that a result depends on. A line that was cut off when
    its writer died is dropped.

    Args:
        path: The file; it is made if it is not there.

    Raises:
        InputError: It cannot be written, is no result store, or is of other versions.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = []
        head = {"format": _FORMAT, "versions": versions()}
        try:
            data = path.read_bytes() if path.exists() else b""
            whole = _whole(data)
            lines = _lines(whole)
            if not (data.startswith(_BEGINS) or _BEGINS.startswith(data)):
                raise _foreign(path)
            if lines:
                self._check(_head(path, lines[0]), head)
                self.rows = list(_rows(path, lines[1:]))
                os.truncate(path, len(whole))
            self._file: TextIO = path.open("a" if lines else "w", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"{path}: results cannot be kept in it ({error.strerror or error}); "
                "name another file"
            ) from None
        if not lines:
            self._write(head)

    def __enter__(self) -> "Store":  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def add(self, row: Row) -> None:
        """Keep a row, on the disk before this returns."""
        self.rows.append(row)
        self._write(row.to_dict())

    def _write(self, plain: dict[str, Any]) -> None:
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _check(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        if found == wanted:
            return
        old, new = found.get("versions", {}), wanted["versions"]
        other = ", ".join(
            f"{name} {old.get(name)} (now {new[name]})"
            for name in new
            if old.get(name) != new[name]
        )
        raise InputError(
            f"{self._path}: its rows come from {other or 'another format of the file'}; "
            "give another file for the rows of this run"
        )


def read_rows(path: Path) -> list[Row]:
    """The rows of a finished or broken-off run.

    Raises:
        InputError: `path` cannot be read or is no result store.
    """
    try:
        lines = _lines(_whole(path.read_bytes()))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); wanted results of zoo run"
        ) from None
    _head(path, lines[0] if lines else "")
    return list(_rows(path, lines[1:]))


def _whole(data: bytes) -> bytes:
    """A file up to its last line feed: what stands behind it was cut off."""
    return data[: data.rfind(b"\n") + 1]


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").split("\n")[:-1]


def _head(path: Path, line: str) -> dict[str, Any]:
    try:
        head = json.loads(line)
        if head["format"] == _FORMAT:
            return dict(head)
    except (ValueError, KeyError, TypeError):
        pass
    raise _foreign(path)


def _foreign(path: Path) -> InputError:
    return InputError(f"{path}: not a file of results; wanted one that zoo run --results wrote")


def _rows(path: Path, lines: list[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 2):
        yield _row(f"{path}, line {number}", line)


def _row(where: str, line: str) -> Row:
    try:
        return Row.from_dict(json.loads(line))
    except (TypeError, ValueError):
        raise InputError(f"{where}: not a row of results; remove that line") from None
