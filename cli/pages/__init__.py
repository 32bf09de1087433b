"""Reports that people look at: one self-contained HTML file each, from the records in JSON.

A page holds its data as they are in the report, compressed; `page.js` and its neighbours show them
with the libraries in ``vendor``. Its content security policy forbids all requests.
"""

__all__ = ["BEGINS", "model_page", "zoo_page"]

import base64
import gzip
import html
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any

BEGINS = b'<!doctype html>\n<html lang="en" data-made-by="onnxcast">'
"""How every page begins, and no other file."""

_LIBRARIES = ("d3.min.js", "plot.umd.min.js", "cytoscape.min.js", "dagre.min.js")
_OWN = ("page.js", "scopes.js", "layout.js", "graph.js", "charts.js", "model.js", "zoo.js")


def model_page(report: Mapping[str, Any]) -> str:
    """The page of one run.

    Args:
        report: As `onnxcast.Report.to_dict` gives it.
    """
    name = report["source"].replace("\\", "/").rpartition("/")[2] or "model in memory"
    return _page(f"{name} {report['token']}", {"report": report})


def zoo_page(runs: Sequence[Mapping[str, Any]], reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The page of runs of the zoo.

    Args:
        runs: The oldest first; ``name``, and ``rows`` as `onnxcast_models.rows.Row.to_dict` gives
            them.
        reports: Those of the newest run by ``model/mode``.
    """
    data = {f"report:{key}": report for key, report in reports.items()}
    return _page("onnxcast zoo", {"runs": list(runs), **data})


def _page(title: str, data: Mapping[str, Any]) -> str:
    scripts = [_file(f"vendor/{name}") for name in _LIBRARIES] + [_file(name) for name in _OWN]
    parts = {
        "title": html.escape(title),
        "style": f"<style>\n{_file('page.css')}</style>",
        "data": "\n".join(_held(name, content) for name, content in data.items()),
        "scripts": "\n".join(f"<script>\n{script}\n</script>" for script in scripts),
    }
    page = _file("page.html")
    for name, text in parts.items():
        page = page.replace(f"<!-- {name} -->", text, 1)
    return page


def _file(name: str) -> str:
    text = (importlib.resources.files(__name__) / name).read_text(encoding="utf-8")
    # What debuggers would ask for is not there.
    return "".join(
        line for line in text.splitlines(keepends=True) if "//# sourceMappingURL" not in line
    )


def _held(name: str, content: object) -> str:
    """`content` in a script element that is no script; figures that are not finite are strings."""
    content = json.loads(json.dumps(content), parse_constant=str)
    plain = json.dumps(content, separators=(",", ":")).encode()
    packed = base64.b64encode(gzip.compress(plain, mtime=0)).decode()
    return f'<script type="text/plain" data-name="{html.escape(name)}">{packed}</script>'
