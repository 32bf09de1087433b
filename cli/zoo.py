"""``onnxcast zoo``: list, fetch and run the models of the zoo."""

__all__ = ["zoo"]

import dataclasses
import difflib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from rich.progress import MofNCompleteColumn

from onnxcast.errors import InputError

from .console import bar, print_json, results
from .options import MODEL, as_json, help_alone
from .tables import figure, new_table, size

if TYPE_CHECKING:
    from onnxcast_models.catalogue import Entry
    from onnxcast_models.runner import Row, Subject

_FAILED = 1
_Item = TypeVar("_Item")

_cache = click.option(
    "--cache", type=MODEL, metavar="DIR", help="Where models are kept [default: ~/.cache/onnxcast]."
)


@click.group(invoke_without_command=True, short_help="Trained models, and what becomes of them.")
@click.pass_context
def zoo(context: click.Context) -> int | None:
    """Trained models that anyone can get, and what onnxcast makes of them.

    \b
    Examples:
      onnxcast zoo list
      onnxcast zoo run digits_resnet_ts
      onnxcast zoo run --token all-fp16 --json > tonight.json
    """
    return help_alone(context)


@zoo.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List the models.

    \b
    Example:
      onnxcast zoo list
    """
    from onnxcast_models.catalogue import CATALOGUE

    rows = [{**dataclasses.asdict(entry), "origin": str(entry.origin)} for entry in CATALOGUE]
    if as_json:
        print_json(rows)
        return
    table = new_table("name", "kind", "licence", "from")
    for row in rows:
        table.add_row(row["name"], row["kind"], row["licence"], row["origin"])
    results().print(table)


@zoo.command(short_help="Get models into the cache.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_cache
def fetch(names: tuple[str, ...], cache: Path | None) -> None:
    """Get models into the cache (all by default) and print their paths.

    \b
    Examples:
      onnxcast zoo fetch
      onnxcast zoo fetch silero_vad --cache models/
    """
    from onnxcast_models.catalogue import CATALOGUE
    from onnxcast_models.fetch import default_cache, fetch

    entries = _chosen(names, {entry.name: entry for entry in CATALOGUE})
    paths = []
    with bar(MofNCompleteColumn()) as show:
        for index, entry in enumerate(entries):
            show(index, len(entries), entry.name)
            paths.append(fetch(entry, cache or default_cache()))
    for path in paths:
        click.echo(path)


@zoo.command(short_help="Convert and prove models in every mode.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--token",
    "tokens",
    multiple=True,
    metavar="TOKEN",
    help="A mode, as for optimize --fp32-cast (repeatable) [default: every mode].",
)
@click.option(
    "--from",
    "folder",
    type=MODEL,
    metavar="DIR",
    help="Take every NAME.onnx in DIR, with NAME.npz as its samples, instead of the catalogue.",
)
@click.option("--samples", type=MODEL, metavar="DIR", help="Take samples from NAME.npz in DIR.")
@click.option("--out", type=MODEL, metavar="DIR", help="Keep the results as NAME.TOKEN.onnx.")
@_cache
@as_json
def run(
    names: tuple[str, ...],
    tokens: tuple[str, ...],
    folder: Path | None,
    samples: Path | None,
    out: Path | None,
    cache: Path | None,
    as_json: bool,
) -> int:
    """Convert and prove models (all by default), each in every mode.

    The exit code is 0 when each was either written or refused with a cause.

    \b
    Examples:
      onnxcast zoo run digits_resnet_ts
      onnxcast zoo run --token all-fp16 --token matmult-fp16
      onnxcast zoo run --from exported/ --out converted/ --json
    """
    for path in (folder, samples):
        if path is not None and not path.is_dir():
            raise InputError(f"{path}: no such folder; wanted one with models or samples")
    import onnxcast
    from onnxcast_models.runner import MODES, run

    for token in tokens:
        onnxcast.make_policy(fp32_cast=token)
    subjects = _from_catalogue(names, cache) if folder is None else _from_folder(names, folder)
    if samples is not None:
        subjects = [_fed(subject, samples) for subject in subjects]
    if out is not None:
        _make(out)
    with bar(MofNCompleteColumn()) as show:
        rows = run(subjects, tokens or MODES, out=out, progress=show)
    if as_json:
        print_json([dataclasses.asdict(row) for row in rows])
    else:
        _print(rows)
    return _FAILED if any(row.outcome == "failed" for row in rows) else 0


def _from_catalogue(names: Sequence[str], cache: Path | None) -> "list[Subject]":
    from onnxcast_models.catalogue import CATALOGUE
    from onnxcast_models.fetch import default_cache, fetch, packaged_samples
    from onnxcast_models.runner import Subject

    def subject(entry: "Entry") -> "Subject":
        get = functools.partial(fetch, entry, cache or default_cache())
        return Subject(entry.name, get, packaged_samples(entry))

    return [subject(entry) for entry in _chosen(names, {each.name: each for each in CATALOGUE})]


def _from_folder(names: Sequence[str], folder: Path) -> "list[Subject]":
    from onnxcast_models.runner import Subject

    found = {path.stem: path for path in sorted(folder.glob("*.onnx"))}
    if not found:
        raise InputError(f"{folder}: no .onnx file in it; wanted a folder of models")

    def subject(path: Path) -> "Subject":
        samples = path.with_suffix(".npz")
        return Subject(path.stem, lambda: path, samples if samples.exists() else None)

    return [subject(path) for path in _chosen(names, found)]


def _fed(subject: "Subject", folder: Path) -> "Subject":
    samples = folder / f"{subject.name}.npz"
    return dataclasses.replace(subject, inputs=samples) if samples.exists() else subject


def _chosen(names: Iterable[str], known: dict[str, _Item]) -> list[_Item]:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"no model {name!r}: known are {', '.join(known)}{hint}")
    return [known[name] for name in names] or list(known.values())


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror}); wanted a folder to write in"
        ) from None


def _print(rows: "Sequence[Row]") -> None:
    table = new_table(
        "model",
        "mode",
        ">Casts",
        ">before",
        ">after",
        ">narrow",
        ">pins",
        ">worst",
        ">s",
        "outcome",
    )
    for row in rows:
        table.add_row(
            row.name,
            row.token,
            _shown(row.casts, str),
            _shown(row.bytes_before, size),
            _shown(row.bytes_after, size),
            _shown(row.narrow, "{:.0%}".format),
            _shown(row.pins, str),
            _shown(row.worst_error, figure),
            f"{row.seconds:.1f}",
            row.outcome,
            style=None if row.outcome == "written" else "yellow",
        )
    console = results()
    console.print(table)
    console.print()
    for row in rows:
        if row.cause:
            console.print(f"{row.name} {row.token}: {row.cause}", soft_wrap=True)
    counts = Counter(row.outcome for row in rows)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    console.print(told, style="bold")


def _shown(value: _Item | None, show: Callable[[_Item], str]) -> str:
    return "-" if value is None else show(value)
