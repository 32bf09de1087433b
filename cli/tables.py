"""Tables of results: sizes, decisions and proofs."""

__all__ = ["bound", "figure", "new_table", "print_groups", "print_proof", "size"]

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

if TYPE_CHECKING:
    from onnxcast.planning import Plan
    from onnxcast.verification.comparison import OutputError
    from onnxcast.verification.proof import Proof

_WIDE = "float32"


def new_table(*columns: str) -> Table:
    """An empty table; a column whose title begins with ``>`` is aligned to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        right = column.startswith(">")
        # Folded, never cut: what stands in a table can be copied whole.
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    return table


def size(count: int) -> str:
    """Bytes for people."""
    return decimal(count)


def bound(least: "Mapping[str, Any] | None") -> str:
    """What Casts cost at least, as a report has it."""
    if least is None:
        return "no bound: nothing is cast by this plan"
    figure = size(least["least"]) if least["unit"] == "bytes" else f"{least['least']} Casts"
    why_not = least["not_proven_minimal"]
    return f"at least {figure} for this plan" + (f"; not proven minimal: {why_not}" * bool(why_not))


def figure(value: float) -> str:
    """An error, in three digits."""
    return f"{value:.2e}"


def print_groups(console: Console, plan: "Plan") -> None:
    """How many type groups get which format, and why: the narrow ones first."""
    counts = Counter(
        (decision.format.name, decision.reason.value) for decision in plan.decisions.values()
    )
    table = new_table(">type groups", "format", "because")
    for (name, because), count in sorted(
        counts.items(), key=lambda item: (item[0][0] == _WIDE, -item[1], item[0])
    ):
        table.add_row(str(count), name, because, style="dim" if name == _WIDE else None)
    console.print(table)


def print_proof(console: Console, proof: "Proof", *, limit: int | None = None) -> None:
    """What was run and what not, and the errors of each output.

    Args:
        console: Where to.
        proof: The figures.
        limit: How many outputs to show, the worst ones first; all by default.
    """
    table = new_table("run", "outcome")
    table.add_row("reference", f"ran: the {proof.reference}")
    rounded = f": {proof.rounded} values rounded as on the device" if proof.twin == "ran" else ""
    table.add_row("twin", f"{proof.twin}{rounded}")
    table.add_row("as is", proof.as_is)
    table.add_row("default level", proof.default_level)
    if proof.not_compared:
        table.add_row("not compared", ", ".join(proof.not_compared))
    if proof.assumed:
        ops = ", ".join(f"{op} ({count})" for op, count in proof.assumed.items())
        table.add_row("assumed", f"one rounding inside each {ops}")
    console.print(table)
    console.print()
    console.print(_errors(proof, limit))


def _errors(proof: "Proof", limit: int | None) -> Table:
    as_is = {error.name: error for error in proof.as_is_errors}
    table = new_table("output", ">max error", ">rms error", ">as is", ">tolerance", "")
    allowed = figure(proof.tolerance.max)
    rows = sorted(proof.twin_errors, key=lambda error: (error.ok, -error.max_error))
    shown = rows[:limit]
    for error in shown:
        other = as_is.get(error.name)
        ok = error.ok and (other is None or other.ok)
        table.add_row(
            error.name,
            figure(error.max_error),
            figure(error.rms_error),
            "-" if other is None else figure(other.max_error),
            error.budget or allowed,
            _passed(error) if ok else f"FAILED: {_why(error, other)}",
            style=None if ok else "red",
        )
    if len(rows) > len(shown):
        table.add_row(f"and {len(rows) - len(shown)} more", "", "", "", "", "not above these")
    return table


def _passed(error: "OutputError") -> str:
    return f"ok: {error.figure:.3g}" if error.budget else "ok"


def _why(twin: "OutputError", as_is: "OutputError | None") -> str:
    return twin.why or (f"as is: {as_is.why}" if as_is is not None else "")
