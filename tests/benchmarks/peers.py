"""Casts of onnxcast beside those of other tools: ``python -m tests.benchmarks.peers MODELS_DIR``.

Every model is planned for float16, and each tool is told to keep float32 exactly the computing
nodes that stay so in the plan; where that fails, also the ops that it keeps by default. Where it
keeps more nodes, so does onnxcast in the comparison: both have the same nodes narrow, and differ
only in where the Casts stand. Data movement and constants are free for all. A model that a tool
cannot convert, or that is not valid then (stale value_info forgiven), counts as its failure.

A Cast costs the bytes that it writes, by each conversion that the target does it in. Wanted: on no
model does another tool have a lower sum, or with ``--minimise casts`` fewer Casts.
"""

import argparse
import dataclasses
import functools
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxcast.files import read_model
from onnxcast.targets import GENERIC, Target, get_target
from onnxcast.verification.session import RuntimeFailure, Worker
from tests.benchmarks.subjects import Figures, Subject
from tests.benchmarks.tools import Convert, available

TARGETS = ("generic", "ascend950")


class Failure(Exception):  # noqa: N818 - an outcome to report
    """A tool gives no model to compare with."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One model, tool and target; `theirs` is None where there is nothing to compare with."""

    model: str
    tool: str
    target: str
    ours: Figures
    theirs: Figures | None
    note: str = ""


_Outcome = tuple[ir.Model | None, str]

Load = Callable[[onnx.ModelProto], None]
"""Lets onnxruntime load a model, or raises `RuntimeFailure`."""


def _converted(
    proto: onnx.ModelProto,
    subject: Subject,
    convert: Callable[[onnx.ModelProto], onnx.ModelProto],
    load: Load,
) -> ir.Model:
    """What another tool makes of `proto`.

    Raises:
        Failure: It gives nothing, or nothing that is valid.
    """
    try:
        found = convert(proto)
    except Exception as error:  # whatever another tool dies of is its outcome
        raise Failure(f"{type(error).__name__}: {error}") from error
    del found.graph.value_info[:]
    try:
        onnx.checker.check_model(found, full_check=subject.valid)
        load(found)
        return read_model(found).model
    except RuntimeFailure as failure:
        raise Failure(f"onnxruntime: {failure.message}") from failure
    except Exception as error:  # the checker's errors have no common class
        raise Failure(f"invalid: {error}") from error


def _best(subject: Subject, convert: Convert, load: Load) -> _Outcome:
    """The cheapest that another tool makes of `subject`, with a note, or None and why.

    The ops that it keeps by default come in where it gives nothing valid without.
    """
    why = ""
    for by_default in (False, True):
        found: list[ir.Model] = []
        for proto, kept in itertools.product(subject.protos, subject.kept_sets):
            try:
                told = functools.partial(convert, kept=kept, by_default=by_default)
                found.append(_converted(proto, subject, told, load))
            except Failure as failure:  # noqa: PERF203 - seconds each
                why = why or f"fails: {' '.join(str(failure).split())}"[:120]
        if found:
            note = "with the ops that it keeps by default; " if by_default else ""
            return min(found, key=lambda each: subject.figures(each, GENERIC).bytes), note
    return None, why


def compare(name: str, subject: Subject, tools: Mapping[str, Convert], load: Load) -> Iterator[Row]:
    """The rows of one model."""
    targets = [get_target(each) for each in TARGETS]
    plain = [subject.ours(target, subject.kept) for target in targets]
    for tool, convert in tools.items():
        outcome = _best(subject, convert, load)
        for target, ours in zip(targets, plain, strict=True):
            yield Row(name, tool, target.name, *_figures(subject, target, ours, *outcome))


def _figures(
    subject: Subject, target: Target, ours: ir.Model, theirs: ir.Model | None, note: str
) -> tuple[Figures, Figures | None, str]:
    """Figures of both, after the same nodes are narrow in both, and a note."""
    if theirs is None:
        return subject.figures(ours, target), None, note
    narrow = subject.narrow(theirs)
    more = subject.narrow(ours) - narrow
    if more:
        note += f"{len(more)} more nodes are wide, in both; "
        ours = subject.ours(target, subject.kept | more)
    figures = subject.figures(ours, target)
    other = subject.narrow(ours) ^ narrow
    if other:
        first = ", ".join(sorted(other)[:3])
        return figures, None, f"{note}not compared: {len(other)} nodes differ, as {first}"
    lost = subject.lost(theirs) - subject.lost(ours)
    if lost:
        return figures, None, f"{note}not compared: Casts of the model are lost, as {min(lost)}"
    return figures, subject.figures(theirs, target), note.removesuffix("; ")


def _load(worker: Worker, path: Path, model: onnx.ModelProto) -> None:
    onnx.save(model, path)
    worker.load(path, "disable_all")


def is_worse(row: Row, *, by_count: bool) -> bool:
    """Whether the other tool has less."""
    if row.theirs is None:
        return False
    if by_count:
        return row.theirs.casts < row.ours.casts
    return row.theirs.bytes < row.ours.bytes


def _print(row: Row, *, worse: bool) -> None:
    theirs = row.theirs
    casts, written = ("-", "-") if theirs is None else (str(theirs.casts), str(theirs.bytes))
    sys.stdout.write(
        f"{row.model:<24} {row.tool:<20} {row.target:<10} {row.ours.narrow:>6} "
        f"{row.ours.casts:>6} {casts:>6} {row.ours.bytes:>12} {written:>12}  "
        f"{'LESS  ' if worse else ''}{row.note}\n"
    )
    sys.stdout.flush()


def _print_sums(rows: Sequence[Row]) -> None:
    sys.stdout.write("\nsums over the models compared, ours by theirs\n")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.tool, row.target), []).append(row)
    for (tool, target), group in groups.items():
        pairs = [(row.ours, row.theirs) for row in group if row.theirs is not None]
        casts = [sum(each[side].casts for each in pairs) for side in (0, 1)]
        written = [sum(each[side].bytes for each in pairs) for side in (0, 1)]
        failed = sum(row.note.startswith("fails") for row in group)
        sys.stdout.write(
            f"{tool:<20} {target:<10} models {len(pairs):>3} of {len(group)}, {failed} failed  "
            f"casts {_ratio(*casts)}  bytes {_ratio(*written)}\n"
        )


def _ratio(ours: int, theirs: int) -> str:
    return f"{ours}/{theirs} = {ours / theirs:.3f}" if theirs else f"{ours}/0"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per model, tool and target, and the sums; 1 if another tool has less on any."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers")
    parser.add_argument("models", type=Path, help="a folder of .onnx files")
    parser.add_argument("--minimise", choices=["casts"], help="what onnxcast is asked to minimise")
    given = parser.parse_args(arguments)
    options = {} if given.minimise is None else {"minimise": given.minimise}
    tools, missing = available()
    for tool, why in missing.items():
        sys.stdout.write(f"{tool} is left out: {why}\n")
    head = ("model", "tool", "target", "narrow", "casts", "theirs", "bytes", "theirs")
    sys.stdout.write("{:<24} {:<20} {:<10} {:>6} {:>6} {:>6} {:>12} {:>12}\n".format(*head))
    rows: list[Row] = []
    less = 0
    with Worker() as worker, tempfile.TemporaryDirectory() as name:
        load = functools.partial(_load, worker, Path(name, "converted.onnx"))
        for path in sorted(given.models.glob("*.onnx")):
            subject = Subject(path, options)
            for row in compare(path.stem, subject, tools, load):
                worse = is_worse(row, by_count=given.minimise == "casts")
                less += worse
                rows.append(row)
                _print(row, worse=worse)
    _print_sums(rows)
    return 1 if less else 0


if __name__ == "__main__":
    sys.exit(main())
