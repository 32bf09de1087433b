"""Rows of a run of the zoo as a table."""

__all__ = ["print_judged"]

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from .console import results
from .tables import figure, new_table, size

if TYPE_CHECKING:
    from onnxcast_models.suite import Judged

_Value = TypeVar("_Value")

_STYLES = {"worse": "red", "better": "green", "new": "yellow"}


def print_judged(found: "Sequence[Judged]") -> None:
    """The table, then what is not as expected, the totals last."""
    table = new_table("model", "mode", ">Casts", ">write", ">narrow", ">pins", ">worst", ">s", "is")
    table.padding = (0, 1, 0, 0)  # else the names do not fit
    for each in found:
        row = each.row
        table.add_row(
            row.name,
            str(row.mode),
            _shown(row.casts, str),
            _shown(row.cast_bytes, size),
            _shown(row.narrow, "{:.0%}".format),
            _shown(row.pins, str),
            _shown(row.worst_error, figure),
            f"{row.seconds:.1f}",
            each.verdict if row.outcome == "written" else row.outcome,
            style=_STYLES.get(each.verdict),
        )
    console = results()
    console.print(table)
    console.print()
    for each in found:
        why = each.why or each.row.cause
        if why and each.verdict != "new":
            console.print(
                f"{each.row.name} {each.row.mode}: {why}",
                style=_STYLES.get(each.verdict),
                soft_wrap=True,
            )
    outcomes = Counter(each.row.outcome for each in found)
    verdicts = Counter(each.verdict for each in found)
    console.print(f"{_counted(outcomes)}: {_counted(verdicts)}", style="bold")


def _counted(counts: "Counter[_Value]") -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=str))


def _shown(value: _Value | None, show: Callable[[_Value], str]) -> str:
    return "-" if value is None else show(value)
