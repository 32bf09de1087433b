"""``onnxcast zoo report``: a page of runs of the zoo, to look at."""

__all__ = ["report"]

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnxcast.errors import InputError, RefusedError

from .console import bar, say
from .destinations import check_report
from .options import MODEL
from .pages import zoo_page
from .tables import size

if TYPE_CHECKING:
    from onnxcast_models.rows import Row


@click.command(short_help="Write a page of one or more runs.")
@click.argument("stores", nargs=-1, required=True, type=MODEL, metavar="STORE...")
@click.option(
    "-o",
    "--output",
    type=MODEL,
    default=Path("zoo.html"),
    show_default=True,
    metavar="FILE.html",
    help="The page to write.",
)
@click.option(
    "--reports",
    type=MODEL,
    metavar="DIR",
    help="Where zoo run --reports kept those of the last STORE: each becomes a page of its own.",
)
def report(stores: tuple[Path, ...], output: Path, reports: Path | None) -> None:
    """Write one self-contained page: models and modes of the last STORE, trends over all of them.

    A STORE is what zoo run --results wrote; give the oldest first.

    \b
    Examples:
      onnxcast zoo report tonight.jsonl -o report.html
      onnxcast zoo report mon.jsonl tue.jsonl --reports tue/ -o report.html
    """
    from onnxcast.files.atomic import open_beside, settle
    from onnxcast_models.store import read_rows

    if reports is not None and not reports.is_dir():
        raise InputError(f"{reports}: no such folder; wanted the one of zoo run --reports")
    check_report(output)
    runs = [(path, read_rows(path)) for path in stores]
    page = zoo_page(_runs(runs), {} if reports is None else _kept(reports, runs[-1][1]))
    try:
        with ExitStack() as undo:
            file = open_beside(output, undo)
            file.write(page.encode())
            settle(file, output)
            undo.pop_all()
    except OSError as error:
        raise RefusedError(
            f"report {output}: cannot be written ({error.strerror}); name another file"
        ) from None
    say(f"wrote {output} ({size(output.stat().st_size)})")


def _runs(runs: "Sequence[tuple[Path, list[Row]]]") -> list[dict[str, Any]]:
    """The rows of each run, each with what moved since the run before."""
    from onnxcast_models.judging import judge

    found = []
    before: dict[tuple[str, str, str], Row] = {}
    for path, rows in runs:
        told = []
        for row in rows:
            verdict, why = judge(before[row.key], row) if row.key in before else ("new", "")
            told.append({**row.to_dict(), "mode": str(row.mode), "verdict": verdict, "why": why})
        found.append({"name": path.stem, "rows": told})
        before = {row.key: row for row in rows}
    return found


def _kept(folder: Path, rows: "Sequence[Row]") -> dict[str, dict[str, Any]]:
    found = {}
    with bar() as show:
        for index, row in enumerate(rows):
            show(index, len(rows), f"read {row.name} {row.mode}")
            path = folder / f"{row.name}.{row.mode}.json"
            if path.exists():
                found[f"{row.name}/{row.mode}"] = _read(path)
    return found


def _slim(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Findings without their text, but for the first of each kind: a page shows no more."""
    told: set[str] = set()
    found = []
    for each in findings:
        kind = each["kind"]
        found.append({"code": each["code"], "kind": kind} | ({} if kind in told else each))
        told.add(kind)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return {**report, "findings": _slim(report["findings"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: no report of zoo run --reports; remove it, or run that job again"
        ) from None
