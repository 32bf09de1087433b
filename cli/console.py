"""Where text goes: results to stdout, talk to stderr, progress to a terminal only.

A stream that was closed is the null device. Results that cannot be printed raise `OSError`; talk
that cannot is dropped. Names come from models, and those from strangers: what would steer a
terminal is shown as an escape.
"""

__all__ = [
    "bar",
    "fail",
    "fill_closed_streams",
    "print_json",
    "printable",
    "results",
    "say",
    "silence",
    "spinner",
    "warn",
]

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TextIO

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

_WIDTH = 80


def printable(text: str) -> str:
    """`text` with escapes for what a terminal would obey, or would not show."""
    if text.isprintable():
        return text
    shown = (each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)
    return "".join(shown)


class _Results(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        """A cell or a line."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to our callers, as for any stream; rich would end the process."""
        raise BrokenPipeError


def fill_closed_streams() -> None:
    """Open the null device for each standard stream that the process was started without.

    Else the next file to be opened would take its number, and what libraries print its content.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as we run


def silence(stream: TextIO) -> None:
    """Drop what `stream` still holds and all that follows, else Python fails on it at exit."""
    with contextlib.suppress(OSError, ValueError):  # a stand-in for a stream may have no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def results() -> Console:
    """A console on stdout; off a terminal its lines have one width, so that they can be compared.

    Names come from models, so nothing in them is markup.
    """
    width = None if sys.stdout.isatty() else _WIDTH
    return _Results(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


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
    _echo(printable(text))


def _line(kind: str, text: str) -> None:
    _echo(f"onnxcast: {kind} {printable(' '.join(text.split()))}")


def _echo(text: str) -> None:
    try:
        click.echo(text, err=True)
    except OSError:
        silence(sys.stderr)


@contextlib.contextmanager
def spinner() -> Iterator[Callable[[str], None]]:
    """Yield what shows the step that runs, and for how long all have run."""
    shown = (SpinnerColumn(), TextColumn("{task.description} ...", markup=False))
    silent = not sys.stderr.isatty()
    columns = (*shown, TimeElapsedColumn())
    with Progress(*columns, console=_talk(), transient=True, disable=silent) as progress:
        task = progress.add_task("start", total=None)
        yield lambda step: progress.update(task, description=step)


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
            progress.update(task, completed=done, total=total, description=printable(what))

        yield show


def _talk() -> Console:
    return Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
