"""What each model is expected to give: one JSON file a model, one line a mode."""

__all__ = ["PACKAGED", "Expectations"]

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onnxcast import InputError

from .rows import Mode, Row

PACKAGED = Path(__file__).parent / "expected"
"""What is expected of the models of the catalogue."""

_KEPT = ("digest", "outcome", "casts", "cast_bytes", "narrow_bytes", "pins")
_ERRORS = ("worst_error", "held_out")
_EXPECTABLE = frozenset({"written", "refused", "differs"})
"""What may be expected: nobody expects a crash, a fault, or a model that cannot be had or read."""


class Expectations:
    """The expected rows of a folder.

    Args:
        folder: It need not be there; then nothing is expected.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, Any]] = {}

    def of(self, key: tuple[str, str, str]) -> Row | None:
        """The expected row for a model, token and target.

        Raises:
            InputError: The file of that model is damaged.
        """
        name, token, target = key
        plain = self._read(name).get(str(Mode(token, target)))
        if plain is None:
            return None
        try:
            return Row.from_dict({**plain, "name": name, "token": token, "target": target})
        except (TypeError, ValueError):
            raise self._damaged(name) from None

    def update(self, rows: Iterable[Row]) -> list[Path]:
        """Expect what `rows` say from now on; return the files that changed.

        Raises:
            InputError: They cannot be written.
        """
        changed = []
        for row in rows:
            if row.outcome in _EXPECTABLE and row.digest:
                self._read(row.name)[str(row.mode)] = _expected(row)
        for name, modes in self._files.items():
            text, path = _text(modes), self._folder / f"{name}.json"
            try:
                if modes and not (path.exists() and path.read_text(encoding="utf-8") == text):
                    self._folder.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
                    changed.append(path)
            except OSError as error:
                raise InputError(
                    f"{path}: cannot be written ({error.strerror or error}); name another folder "
                    "by --expected"
                ) from None
        return changed

    def _read(self, name: str) -> dict[str, Any]:
        if name not in self._files:
            path = self._folder / f"{name}.json"
            try:
                self._files[name] = dict(json.loads(path.read_bytes()))
            except FileNotFoundError:
                self._files[name] = {}
            except (OSError, ValueError, TypeError):
                raise self._damaged(name) from None
        return self._files[name]

    def _damaged(self, name: str) -> InputError:
        path = self._folder / f"{name}.json"
        return InputError(
            f"{path}: no expectations can be read from it; delete it and run with --update"
        )


def _expected(row: Row) -> dict[str, Any]:
    plain = row.to_dict()
    kept = {name: plain[name] for name in _KEPT if name in plain}
    # Three digits are enough to tell a regression, and do not change with the weather.
    kept |= {name: _rounded(plain[name]) for name in _ERRORS if name in plain}
    if row.outcome != "written":
        kept["cause"] = row.cause
    if row.labels is not None:
        kept["labels"] = list(row.labels)
    return kept


def _rounded(figure: float | str) -> float | str:
    return figure if isinstance(figure, str) else float(f"{figure:.2e}")


def _text(modes: dict[str, Any]) -> str:
    lines = [f"  {json.dumps(mode)}: {json.dumps(row)}" for mode, row in sorted(modes.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"
