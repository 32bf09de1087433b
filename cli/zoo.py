"""``onnxcast zoo``: models that anyone can get, and what becomes of them."""

__all__ = ["zoo"]

from pathlib import Path

import click
from rich.progress import MofNCompleteColumn

from .console import bar, print_json, results
from .options import as_json, help_alone
from .tables import new_table
from .zoo_compare import compare
from .zoo_options import cache_folder, entries, tags
from .zoo_report import report
from .zoo_run import run


@click.group(invoke_without_command=True, short_help="Public models, and what becomes of them.")
@click.pass_context
def zoo(context: click.Context) -> int | None:
    """Models that anyone can get, and what onnxcast makes of them: its regression suite, and yours.

    \b
    Examples:
      onnxcast zoo list
      onnxcast zoo run --tag quick
      onnxcast zoo run --models exported/ --results tonight.jsonl
      onnxcast zoo compare yesterday.jsonl tonight.jsonl
      onnxcast zoo report tonight.jsonl -o report.html
    """
    return help_alone(context)


@zoo.command("list")
@tags
@as_json
def list_(tags: tuple[str, ...], as_json: bool) -> None:
    """List the models.

    \b
    Example:
      onnxcast zoo list
    """
    found = entries((), tags)
    if as_json:
        print_json(
            [
                {
                    "name": entry.name,
                    "kind": entry.kind,
                    "licence": entry.licence,
                    "origin": str(entry.origin),
                    "tags": sorted(entry.tags),
                    "tolerance": None if entry.tolerance is None else entry.tolerance.value,
                    "reason": "" if entry.tolerance is None else entry.tolerance.reason,
                }
                for entry in found
            ]
        )
        return
    table = new_table("name", "kind", "licence", "from", "tags")
    table.columns[0].no_wrap = True
    table.padding = (0, 1, 0, 0)  # else the names do not fit
    for entry in found:
        table.add_row(
            entry.name, entry.kind, entry.licence, str(entry.origin), ", ".join(sorted(entry.tags))
        )
    results().print(table)


@zoo.command(short_help="Get models into the cache.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@tags
@cache_folder
def fetch(names: tuple[str, ...], tags: tuple[str, ...], cache: Path | None) -> int:
    """Get models with their samples into the cache (all by default) and print their paths.

    What is there already is checked and kept, so a fetch that was broken off goes on where it
    ended.

    \b
    Examples:
      onnxcast zoo fetch
      onnxcast zoo fetch silero_vad --cache models/
    """
    from onnxcast.errors import RefusedError
    from onnxcast_models.fetch import default_cache, fetch

    chosen, missing = entries(names, tags), []
    with bar(MofNCompleteColumn()) as show:
        for index, entry in enumerate(chosen):
            show(index, len(chosen), entry.name)
            try:
                click.echo(fetch(entry, cache or default_cache()).model)
            except RefusedError as error:
                missing.append(str(error))
    if missing:
        raise RefusedError("; ".join(missing))
    return 0


zoo.add_command(run)
zoo.add_command(compare)
zoo.add_command(report)
