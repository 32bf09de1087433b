"""What a conversion did, as tables for people."""

__all__ = ["changes", "print_summary"]

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from .console import results
from .tables import bound, new_table, print_groups, print_proof, size

if TYPE_CHECKING:
    from onnxcast.report import Report
    from onnxcast.search import SearchRecord

_OUTPUTS_SHOWN = 10
_NODES_SHOWN = 10

_CHANGES = {
    "CAST_ADDED": "Casts added",
    "CAST_FOLDED": "Casts folded",
    "CAST_IDENTITY_DROPPED": "Casts to the same type dropped",
    "INITIALIZER_SHRUNK": "constants stored narrow",
    "INITIALIZER_COPIED": "constants stored in both formats",
    "INITIALIZER_KEPT": "constants left wide",
    "FILL_RETYPED": "fills made narrow",
    "MASK_CLAMPED": "mask constants clamped",
    "CAST_LEGALISED": "Casts done in more than one conversion",
    "CAST_LOWERED": "Casts from or to bool replaced",
    "CAST_ILLEGAL": "Casts left that the target cannot do",
    "OPERANDS_NOT_TAKEN": "matmul-like nodes with operands that the target does not multiply",
    "VALUE_SATURATES": "values beyond the range of the format on the samples",
}


def print_summary(report: "Report", files: Sequence[Path], seconds: float) -> None:
    """Print decisions, changes, sizes, proof and files.

    Args:
        report: The record of the run.
        files: What was written.
        seconds: Wall-clock seconds of the whole run.
    """
    console = results()
    before, after = report.opset
    opset = f"opset {after}" if before == after else f"opset raised from {before} to {after}"
    console.print(f"{report.token} for target {report.target.architecture}, {opset}", style="bold")
    console.print()
    if report.plan is not None:
        print_groups(console, report.plan)
        console.print()
        _print_nodes("in bfloat16, as float16 is too small", report.plan.fallback_rows())
        _print_nodes("pinned", report.plan.pins())
    if report.search is not None:
        console.print(_search(report.search))
        console.print()
    console.print(_sizes(report))
    console.print()
    console.print(changes(report) or "nothing to change")
    if report.plan is not None and report.plan.bound is not None:
        console.print(f"Casts: {bound(report.plan.bound.to_dict())}")
    if report.target.casts is not None:
        console.print(_casts(report))
    console.print()
    if report.proof is None:
        console.print("not verified", style="yellow")
    else:
        console.print(f"verified on {report.inputs}", style="bold")
        print_proof(console, report.proof, limit=_OUTPUTS_SHOWN)
    console.print()
    written = ", ".join(f"{path} ({size(path.stat().st_size)})" for path in files)
    console.print(f"{written} in {seconds:.1f} s", style="bold green", soft_wrap=True)
    command = report.target.next_command(files[0])
    if command:
        console.print(f"next: {command}", style="bold", soft_wrap=True)
    for sentence in report.target.advice:
        console.print(f"{report.target.name}: {sentence}", style="yellow")


def _print_nodes(title: str, rows: Sequence[Mapping[str, str]]) -> None:
    """The nodes that measured figures decide on, the first few of them."""
    if not rows:
        return
    table = new_table(title, "because")
    for row in rows[:_NODES_SHOWN]:
        table.add_row(row["node"], row["figure"])
    console = results()
    console.print(table)
    if len(rows) > _NODES_SHOWN:
        console.print(f"and {len(rows) - _NODES_SHOWN} more, all in --report and --json")
    console.print()


def _search(search: "SearchRecord") -> str:
    """How the pins were found."""
    # If all stays wide, that is more than could be chosen from.
    of = f" of {search.groups}" if search.pins <= search.groups else ""
    found = f"{search.pins}{of} nodes pinned by {search.trials} trials"
    notes = [*(["none can go"] if search.minimal else []), *([search.note] if search.note else [])]
    return ": ".join((found, ", ".join(notes))) if notes else found


def _sizes(report: "Report") -> Table:
    before, after = report.before, report.after
    table = new_table("", ">before", ">after", ">change")
    for title, was, now in (
        ("nodes", before.nodes, after.nodes),
        ("Casts", before.casts, after.casts),
        ("conversions", before.hops, after.hops),
    ):
        table.add_row(title, str(was), str(now), f"{now - was:+d}")
    written = after.cast_bytes - before.cast_bytes
    sign = "-" if written < 0 else "+"
    table.add_row(
        "Casts write", size(before.cast_bytes), size(after.cast_bytes), sign + size(abs(written))
    )
    stored, left = before.tensor_bytes, after.tensor_bytes
    table.add_row(
        "tensors", size(stored), size(left), f"{(left - stored) / stored:+.1%}" if stored else ""
    )
    return table


def _casts(report: "Report") -> str:
    """What the Casts of the result cost on the target."""
    chains = Counter(route.chain.described for route in report.chains)
    written = size(report.after.cast_bytes)
    told = f"Casts on the target: {report.after.hops} conversions that write {written}"
    return "\n".join((told, *(f"  {count} x {text}" for text, count in chains.most_common())))


def changes(report: "Report") -> str:
    """What was changed, with counts; "" if that is at most names and the record in the model."""
    counts = Counter(finding.code.name for finding in report.findings)
    told = [_counted(counts[name], text) for name, text in _CHANGES.items() if counts[name]]
    if told:
        return ", ".join(told)
    before, after = (report.opset[0], report.before), (report.opset[1], report.after)
    return "" if before == after else "nothing narrowed: only brought up and tidied"


def _counted(count: int, text: str) -> str:
    """The text of `_CHANGES`, whose first plural is what is counted."""
    return f"{count} {text if count > 1 else text.replace('s ', ' ', 1)}"
