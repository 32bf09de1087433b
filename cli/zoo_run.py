"""``onnxcast zoo run``: convert and prove models, a row each, and compare with what is expected."""

__all__ = ["run"]

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from onnxcast.errors import InputError, RefusedError

from .console import bar, print_json, say
from .options import MODEL, as_json
from .zoo_options import cache_folder, choose, entries, tags
from .zoo_table import print_judged

if TYPE_CHECKING:
    from onnxcast_models.execution import Runner
    from onnxcast_models.jobs import Job, Limits
    from onnxcast_models.rows import Mode, Row
    from onnxcast_models.subjects import Subject

_REGRESSED = 1
_MEGABYTES_PER_GIGABYTE = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    names: tuple[str, ...]
    tokens: tuple[str, ...]
    every_mode: bool
    targets: tuple[str, ...]
    tags: tuple[str, ...]
    models: Path | None
    samples: Path | None
    results: Path | None
    expected: Path | None
    update: bool
    out: Path | None
    reports: Path | None
    jobs: int
    seconds: float
    memory: float
    scheduler: str | None
    cache: Path | None
    as_json: bool


@click.command(short_help="Convert and prove models, and tell what is not as expected.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--token",
    "tokens",
    multiple=True,
    metavar="TOKEN",
    help="A mode, as for optimize --fp32-cast (repeatable) [default: with --target all, else "
    "all-fp16, all, matmult and all-fp8e4, and all for ascend950 and ascend910b].",
)
@click.option("--every-mode", is_flag=True, help="Every mode that there is.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="A target, as for optimize (repeatable) [default: with --token generic].",
)
@tags
@click.option(
    "--models",
    type=MODEL,
    metavar="DIR",
    help="Take every NAME.onnx in DIR instead of the catalogue, with NAME.npz, NAME.1.npz or "
    "test_data_set_* as samples and NAME.labels.npz as labels.",
)
@click.option("--samples", type=MODEL, metavar="DIR", help="Take samples from NAME.npz in DIR.")
@click.option(
    "--results",
    type=MODEL,
    metavar="FILE",
    help="Keep a row per job in FILE, as it ends; jobs that have one there are not done again.",
)
@click.option(
    "--expected",
    type=MODEL,
    metavar="DIR",
    help="Compare with the expectations in DIR [default: those of the catalogue; expected/ in the "
    "folder of --models].",
)
@click.option("--update", is_flag=True, help="Expect from now on what this run gives.")
@click.option("--out", type=MODEL, metavar="DIR", help="Keep the results as NAME.MODE.onnx.")
@click.option(
    "--reports",
    type=MODEL,
    metavar="DIR",
    help="Keep a report with a drawing as NAME.MODE.json, for zoo report; this takes longer.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many conversions run at once; they share the processors.",
)
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one conversion may take.",
)
@click.option(
    "--memory",
    type=click.FloatRange(0, min_open=True),
    default=8.0,
    show_default=True,
    metavar="GIGABYTES",
    help="How much memory each process may address.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on a Dask cluster, such as tcp://host:8786, that sees the same files.",
)
@cache_folder
@as_json
def run(**options: Any) -> int:
    """Convert and prove models (all by default) in several modes, each in a process of its own.

    The exit code is 0 when each row is as expected or better, else 1. Expected of a model that
    nothing is known of is that it is written.

    \b
    Examples:
      onnxcast zoo run --tag quick --jobs 4
      onnxcast zoo run digits_resnet_ts --token all-fp16 --token matmult-fp16
      onnxcast zoo run --models exported/ --results tonight.jsonl
      onnxcast zoo run --models exported/ --update
    """
    return _run(_Options(**options))


def _run(chosen: _Options) -> int:
    for path in (chosen.models, chosen.samples):
        if path is not None and not path.is_dir():
            raise InputError(f"{path}: no such folder; wanted one with models or samples")
    from onnxcast_models.expectations import Expectations
    from onnxcast_models.suite import jobs_of, judged

    modes = _modes(chosen)
    subjects, rows = _subjects(chosen, modes)
    for folder in (chosen.out, chosen.reports):
        if folder is not None:
            _make(folder)
    rows += _finished(jobs_of(subjects, modes, chosen.out, chosen.reports), chosen)
    expected = Expectations(_expected_folder(chosen))
    if chosen.update:
        changed = expected.update(rows)
        say(f"{len(changed)} files of expectations changed")
    found = judged(rows, expected)
    if chosen.as_json:
        print_json(
            [{**each.row.to_dict(), "verdict": each.verdict, "why": each.why} for each in found]
        )
    else:
        print_judged(found)
    return _REGRESSED if any(each.verdict == "worse" for each in found) else 0


def _modes(chosen: _Options) -> "Sequence[Mode]":
    """The modes that are asked for, all of them valid."""
    from onnxcast_models.suite import EVERY_MODE, SUITE, mode_of

    tokens = chosen.tokens or tuple(mode.token for mode in EVERY_MODE if chosen.every_mode)
    if not tokens and not chosen.targets:
        return list(SUITE)
    return [
        mode_of(token, target)
        for target in chosen.targets or (None,)
        for token in tokens or ("all",)
    ]


def _subjects(chosen: _Options, modes: "Sequence[Mode]") -> "tuple[list[Subject], list[Row]]":
    """The models, and a row for each mode of those that cannot be had."""
    from onnxcast_models.subjects import find_subjects, subject_of

    missing: list[Row] = []
    if chosen.models is None:
        subjects, missing = _fetched(chosen, modes)
    else:
        known = {subject.name: subject for subject in find_subjects(chosen.models)}
        subjects = choose(chosen.names, known, "model")
    if chosen.samples is not None:
        subjects = [
            dataclasses.replace(
                each, samples=subject_of(each.model, each.name, samples=chosen.samples).samples
            )
            for each in subjects
        ]
    return subjects, missing


def _fetched(chosen: _Options, modes: "Sequence[Mode]") -> "tuple[list[Subject], list[Row]]":
    from onnxcast_models.fetch import default_cache, fetch
    from onnxcast_models.rows import Row

    wanted = entries(chosen.names, chosen.tags)
    subjects: list[Subject] = []
    missing: list[Row] = []
    with bar(MofNCompleteColumn()) as show:
        for index, entry in enumerate(wanted):
            show(index, len(wanted), f"fetch {entry.name}")
            try:
                subjects.append(fetch(entry, chosen.cache or default_cache()))
            except RefusedError as error:
                cause = str(error)
                missing += [
                    Row(
                        name=entry.name,
                        token=mode.token,
                        target=mode.target,
                        outcome="missing",
                        cause=cause,
                    )
                    for mode in modes
                ]
    return subjects, missing


def _finished(jobs: "Sequence[Job]", chosen: _Options) -> "list[Row]":
    """The rows of all jobs, those from an earlier run among them."""
    from onnxcast_models.execution import execute
    from onnxcast_models.jobs import Limits
    from onnxcast_models.store import Store
    from onnxcast_models.suite import left

    limits = Limits(chosen.seconds, int(chosen.memory * _MEGABYTES_PER_GIGABYTE))
    with contextlib.ExitStack() as stack:
        store = None if chosen.results is None else stack.enter_context(Store(chosen.results))
        rows: list[Row]
        todo, rows = left(jobs, store.rows if store is not None else ())
        show = stack.enter_context(bar(MofNCompleteColumn(), TimeRemainingColumn()))
        show(len(rows), len(jobs), "start")
        if not todo:
            return rows
        runner = stack.enter_context(_runner(chosen, limits))
        for row in execute(todo, runner):
            rows.append(row)
            if store is not None:
                store.add(row)
            show(len(rows), len(jobs), f"{row.name} {row.mode}")
    return rows


@contextlib.contextmanager
def _runner(chosen: _Options, limits: "Limits") -> "Iterator[Runner]":
    from onnxcast_models.execution import on_cluster, on_this_machine

    if chosen.scheduler is None:
        with on_this_machine(chosen.jobs, limits) as runner:
            yield runner
    else:
        with on_cluster(chosen.scheduler, limits) as runner:
            yield runner


def _expected_folder(chosen: _Options) -> Path:
    from onnxcast_models.expectations import PACKAGED

    if chosen.expected is not None:
        return chosen.expected
    return PACKAGED if chosen.models is None else chosen.models / "expected"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror}); wanted a folder to write in"
        ) from None
