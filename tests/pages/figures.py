"""What a page shows, read back from its text."""

import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["figures_of", "follow", "shown_figures"]

_UNITS = {"bytes": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "s": 1.0, "": 1.0}

_ROUNDING = {"count": 0.0, "text": 0.0, "bytes": 0.1, "error": 0.006, "number": 1e-5, "seconds": 1}
"""How much of itself a figure may lose on the page, by unit."""

shown_figures = """Array.from(document.querySelectorAll('[data-figure]'), each => ({
    path: each.dataset.figure, value: each.dataset.value, unit: each.dataset.unit,
    text: each.textContent}))"""
"""All figures on a page."""


def follow(record: Any, path: str) -> Any:
    """What stands at a path of a record."""
    for key in path.split("/")[1:]:
        record = record[int(key)] if isinstance(record, list) else record[key]
    return record


def figures_of(figure: Mapping[str, str], record: Any) -> None:
    """Check that a figure on a page is that of the record, but for its rounding."""
    import json

    value, unit, text = follow(record, figure["path"]), figure["unit"], figure["text"]
    assert json.loads(figure["value"]) == value
    if isinstance(value, str):
        assert text == value
        return
    number = re.fullmatch(r"(-?[\d.]+(?:e[+-]?\d+)?) ?([a-zA-Z]*)", text)
    assert number, text
    read = float(number[1]) * _UNITS[number[2]]
    absolute = 0.05 if unit == "seconds" else 0.0
    assert math.isclose(read, value, rel_tol=_ROUNDING[unit], abs_tol=absolute), figure
