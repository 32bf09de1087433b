"""Options that several subcommands share, and their values."""

__all__ = [
    "DEFAULT_FUNCTIONS",
    "MODEL",
    "as_json",
    "choice_of_format",
    "functions",
    "help_alone",
    "samples",
    "shapes",
    "tolerance",
]

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from onnxcast.errors import InputError

DEFAULT_FUNCTIONS = "specialise"
_BAD_USAGE = 2
_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Path(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # pathlib would take it for the current folder
            self.fail("an empty path; name a file or a folder", param, ctx)
        try:
            os.stat(value)
        except (FileNotFoundError, NotADirectoryError):
            pass  # what is not there may be about to be written
        except OSError as error:
            self.fail(f"{value}: {error.strerror}; name another path", param, ctx)
        return super().convert(value, param, ctx)


MODEL = _Path(path_type=Path)
"""A path; whether it can be read is for the library to say, in its own words."""


def help_alone(context: click.Context) -> int | None:
    """Show the help of a group that is given no command: that is bad usage."""
    if context.invoked_subcommand is not None:
        return None
    click.echo(context.get_help(), err=True)
    return _BAD_USAGE


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError(
            f"tolerance {text!r}: a number from 0 up is wanted, the largest error relative to the "
            "largest value of an output; give for example 1e-2"
        )
    return number


tolerance = click.option(
    "--tolerance",
    type=_number,
    metavar="X",
    help="Largest error that passes, relative to the largest value of an output "
    "[default: 1e-2 for float16, 6e-2 for bfloat16].",
)

functions = click.option(
    "--functions",
    default=DEFAULT_FUNCTIONS,
    metavar="specialise|inline|keep",
    show_default=True,
    help="Narrow bodies of model-local functions per call type, inline them first, or leave them.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def samples(command: _Command) -> _Command:
    """Add what a model is run on."""
    command = click.option(
        "--input-shape",
        "input_shapes",
        multiple=True,
        metavar="NAME:1,3,224,224",
        help="Shape of an input with free dimensions, for the made-up sample (repeatable).",
    )(command)
    return click.option(
        "--inputs",
        type=MODEL,
        metavar="FILE|DIR",
        help="Samples: an .npz with one array per input, a folder of them, or an ONNX "
        "test_data_set_* folder [default: one made-up sample].",
    )(command)


def choice_of_format(command: _Command) -> _Command:
    """Add what is narrowed, to what, and what is kept."""
    for option in reversed(
        (
            click.option(
                "--fp32-cast",
                metavar="TOKEN",
                help="What to narrow, in one word: none, all (all-bf16), all-fp16 "
                "(experimental-all-fp16), matmult (matmult-bf16), matmult-fp16.",
            ),
            click.option(
                "--scope",
                metavar="all|matmult|none",
                help="What to narrow: everything that may be, operands of matmul-like ops, or "
                "nothing [default: all].",
            ),
            click.option(
                "--dtype",
                metavar="fp16|bf16",
                help="The narrow format [default: the one that the target prefers].",
            ),
            click.option(
                "--target",
                metavar="NAME",
                help="The hardware the model is for [default: generic].",
            ),
            click.option(
                "--keep-op",
                "keep_ops",
                multiple=True,
                metavar="PATTERN",
                help="An op type that stays float32 (repeatable).",
            ),
            click.option(
                "--keep-node",
                "keep_nodes",
                multiple=True,
                metavar="PATTERN",
                help="A node name that stays float32 (repeatable).",
            ),
        )
    ):
        command = option(command)
    return command


def shapes(given: Iterable[str]) -> dict[str, tuple[int, ...]] | None:
    """Values of ``--input-shape`` by name; None if there are none.

    Raises:
        InputError: One is not of the form ``NAME:1,3,224,224``, or two are for the same input.
    """
    from onnxcast.verification.feeds import parse_input_shape

    chosen: dict[str, tuple[int, ...]] = {}
    for name, shape in map(parse_input_shape, given):
        if name in chosen:
            raise InputError(f"--input-shape for {name!r}: given twice; give one")
        chosen[name] = shape
    return chosen or None
