"""Where text goes: results to stdout, talk to stderr, progress to a terminal only."""

__all__ = ["bar", "fail", "print_json", "results", "say", "spinner", "warn"]

import contextlib
import json
import sys
from collections.abc import Callable, Iterator

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

_WIDTH = 100


def results() -> Console:
    """A console on stdout; off a terminal its lines have one width, so that they can be compared.

    Names come from models, so nothing in them is markup.
    """
    width = None if sys.stdout.isatty() else _WIDTH
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def print_json(value: object) -> None:
    """Print plain lists and dicts."""
    click.echo(json.dumps(value, indent=2))


def fail(text: str) -> None:
    """Say in one line what went wrong."""
    _line(click.style("error:", fg="red", bold=True), text)


def warn(text: str) -> None:
    """Say in one line what to look at."""
    _line(click.style("warning:", fg="yellow", bold=True), text)


def say(text: str) -> None:
    """Say one line that is no result."""
    click.echo(text, err=True)


def _line(kind: str, text: str) -> None:
    click.echo(f"onnxcast: {kind} {' '.join(text.split())}", err=True)


@contextlib.contextmanager
def spinner() -> Iterator[Callable[[str], None]]:
    """Yield what shows the step that runs."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    with _talk().status("start") as status:
        yield lambda step: status.update(f"{step} ...")


@contextlib.contextmanager
def bar(*columns: ProgressColumn) -> Iterator[Callable[[int, int, str], None]]:
    """Yield what shows how much is done: of how much, and what.

    Args:
        columns: What stands behind the bar.
    """
    shown = (TextColumn("{task.description}", markup=False), BarColumn(), *columns)
    silent = not sys.stderr.isatty()
    with Progress(*shown, console=_talk(), transient=True, disable=silent) as progress:
        task = progress.add_task("", total=None)

        def show(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        yield show


def _talk() -> Console:
    return Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
