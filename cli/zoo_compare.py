"""``onnxcast zoo compare``: what moved between two runs of the zoo."""

__all__ = ["compare"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import print_json, results
from .options import MODEL, as_json
from .tables import new_table

if TYPE_CHECKING:
    from onnxcast_models.rows import Row

_WORSE = 1


@click.command(short_help="What moved between two runs, the worst first.")
@click.argument("before", type=MODEL)
@click.argument("after", type=MODEL)
@as_json
def compare(before: Path, after: Path, as_json: bool) -> int:
    """Tell what moved between two files of results, the worst first.

    The exit code is 1 if anything got worse, else 0.

    \b
    Example:
      onnxcast zoo compare yesterday.jsonl tonight.jsonl
    """
    from onnxcast_models.store import read_rows

    old, new = (_by_key(read_rows(path)) for path in (before, after))
    moved = _moved(old, new)
    if as_json:
        print_json(moved)
    else:
        table = new_table("model", "mode", "what", ">before", ">after", "is")
        for row in moved:
            worse = row["weight"] > 0
            table.add_row(
                row["name"],
                row["mode"],
                row["what"],
                row["before"],
                row["after"],
                "worse" if worse else "better",
                style="red" if worse else "green",
            )
        console = results()
        console.print(table if moved else "nothing moved")
        for told, keys in (
            ("only before", old.keys() - new.keys()),
            ("new", new.keys() - old.keys()),
        ):
            if keys:
                console.print(f"{told}: {', '.join(' '.join(key) for key in sorted(keys))}")
    return _WORSE if any(row["weight"] > 0 for row in moved) else 0


def _by_key(rows: "list[Row]") -> "dict[tuple[str, str, str], Row]":
    return {row.key: row for row in rows}


def _moved(
    old: "dict[tuple[str, str, str], Row]", new: "dict[tuple[str, str, str], Row]"
) -> list[dict[str, Any]]:
    from onnxcast_models.judging import moves

    found = [
        (move, new[key]) for key in old.keys() & new.keys() for move in moves(old[key], new[key])
    ]
    found.sort(key=lambda pair: (-pair[0].weight, pair[1].name, str(pair[1].mode)))
    return [
        {
            "name": row.name,
            "mode": str(row.mode),
            "what": move.what,
            "before": move.before,
            "after": move.after,
            "weight": move.weight,
        }
        for move, row in found
    ]
