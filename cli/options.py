"""Options that several subcommands share, and their values."""

__all__ = [
    "MODEL",
    "as_json",
    "budget",
    "cast_bridges",
    "choice_of_format",
    "help_alone",
    "is_asked",
    "max_error",
    "names",
    "samples",
    "shapes",
    "tolerance",
]

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from onnxcast.errors import InputError

_DEFAULT_FUNCTIONS = "specialise"
_DEFAULT_CAST_FOLDING = "exact"
_DEFAULT_FP32R_BITS = 11
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
    "[default: 1e-2 for float16, 6e-2 for bfloat16, 2e-3 for fp32r, 2.5e-1 for fp8].",
)


def budget(command: _Command) -> _Command:
    """Add the error budget of a search."""
    for option in reversed(
        (
            click.option(
                "--max-error",
                "max_errors",
                multiple=True,
                metavar="[OUTPUT=]X",
                help="The error budget, for all outputs or for one (repeatable): as much as can be "
                "is narrow without a higher error on the samples.",
            ),
            click.option(
                "--metric",
                metavar="relmax|rms|cosine|sqnr|top1",
                help="What --max-error is in: largest or root mean square error, relative to the "
                "output; 1 - cos; the lowest signal to noise ratio in dB; or the share of labels "
                "lost, given as an array 'labels' in the .npz [default: relmax].",
            ),
            click.option(
                "--budget-seconds",
                type=float,
                metavar="S",
                help="Stop looking for fewer nodes to keep wide after so long, and take the best "
                "result verified so far; Ctrl-C does so too.",
            ),
        )
    ):
        command = option(command)
    return command


def max_error(given: Iterable[str]) -> dict[str, float] | None:
    """Values of ``--max-error`` by output, ``*`` for all others; None if there are none.

    Raises:
        InputError: One is no number from 0 up, or two are for the same output.
    """
    chosen: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if not 0 <= limit < math.inf:
            raise InputError(
                f"--max-error {text!r}: a number from 0 up is wanted, or OUTPUT=NUMBER; give for "
                "example 0.01"
            )
        if (name or "*") in chosen:
            raise InputError(f"--max-error for {name or 'all outputs'}: given twice; give one")
        chosen[name or "*"] = limit
    return chosen or None


cast_bridges = click.option(
    "--cast-bridges",
    default="native",
    metavar="native|exact",
    show_default=True,
    help="What chains of Casts may go through where the target lacks one: formats that the rule of "
    "its compiler allows, or also those that hold every value of the source.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def samples(command: _Command) -> _Command:
    """Add what a model is run on."""
    command = click.option(
        "--verify-outputs",
        metavar="NAME,...",
        help="Outputs to compare; only what they need is run for it [default: all].",
    )(command)
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
        help="Samples: an .npz with one array per input, a folder of them, an ONNX "
        "test_data_set_* folder, or Polygraphy's JSON [default: one made-up sample].",
    )(command)


def choice_of_format(command: _Command) -> _Command:
    """Add what is narrowed, to what, and what is kept: the keywords of `onnxcast.make_policy`."""
    for option in reversed(
        (
            click.option(
                "--fp32-cast",
                metavar="TOKEN",
                help="What to narrow and to what, in one word: none, all (all-bf16), all-fp16 "
                "(experimental-all-fp16), all-mixed, all-fp32r, all-fp8e4, matmult (matmult-bf16), "
                "matmult-fp16, matmult-mixed, matmult-fp32r, matmult-fp8e4, inputs (inputs-bf16), "
                "inputs-fp16, inputs-fp32r, inputs-fp8e4.",
            ),
            click.option(
                "--scope",
                metavar="all|matmult|inputs|none",
                help="What to narrow: everything that may be, operands of matmul-like ops, graph "
                "inputs, or nothing [default: all].",
            ),
            click.option(
                "--dtype",
                metavar="fp16|bf16|mixed|fp32r|fp8e4",
                help="The narrow format [default: the one that the target prefers]; mixed is fp16, "
                "and bf16 for nodes whose values leave the range of fp16.",
            ),
            click.option(
                "--target",
                metavar="NAME|FILE.toml",
                help="The hardware the model is for (see onnxcast targets) [default: generic].",
            ),
            _patterns("--keep-op", "keep_ops", "An op type that stays float32"),
            _patterns("--keep-node", "keep_nodes", "A node name that stays float32"),
            _patterns("--narrow-op", "narrow_ops", "An op type that is narrowed whatever it means"),
            _patterns(
                "--narrow-node", "narrow_nodes", "A node name that is narrowed whatever it means"
            ),
            click.option(
                "--matmul-output",
                default="narrow",
                metavar="narrow|wide",
                show_default=True,
                help="Whether matmul-like ops run in the format, or in float32 on operands that "
                "were rounded to it.",
            ),
            click.option(
                "--fp32r-bits",
                type=int,
                default=_DEFAULT_FP32R_BITS,
                metavar="N",
                show_default=True,
                help="Explicit significand bits of fp32r.",
            ),
            click.option(
                "--clamp-masks",
                is_flag=True,
                help="Give mask constants below the range of the format its lowest number.",
            ),
            click.option(
                "--cast-folding",
                default=_DEFAULT_CAST_FOLDING,
                metavar="exact|drop-narrowing",
                show_default=True,
                help="Which Casts of the source may go: those that change no value, or also round "
                "trips to a narrower float and back. To drop these changes values: the result "
                "loses their rounding and says so of each. It is proved against the source all the "
                "same, which may need --tolerance.",
            ),
            click.option(
                "--functions",
                default=_DEFAULT_FUNCTIONS,
                metavar="specialise|inline|keep",
                show_default=True,
                help="Narrow bodies of model-local functions per call type, inline them first, or "
                "leave them.",
            ),
            click.option(
                "--minimise",
                default="bytes",
                metavar="bytes|casts",
                show_default=True,
                help="What the placement of Casts makes least of: the bytes that they move, or "
                "their number.",
            ),
        )
    ):
        command = option(command)
    return command


def _patterns(flag: str, name: str, meaning: str) -> Callable[[_Command], _Command]:
    return click.option(
        flag,
        name,
        multiple=True,
        metavar="PATTERN",
        help=f"{meaning}: a shell pattern, or re: and a regular expression (repeatable).",
    )


def is_asked(options: Mapping[str, object]) -> bool:
    """Whether any option of `choice_of_format` is other than its default."""
    defaults = {
        "matmul_output": "narrow",
        "fp32r_bits": _DEFAULT_FP32R_BITS,
        "cast_folding": _DEFAULT_CAST_FOLDING,
        "functions": _DEFAULT_FUNCTIONS,
        "minimise": "bytes",
    }
    return any(value and value != defaults.get(name) for name, value in options.items())


def names(given: str | None) -> list[str] | None:
    """The value of ``--verify-outputs``; None if there is none."""
    return None if given is None else [name for name in given.split(",") if name]


def shapes(given: Sequence[str]) -> dict[str, tuple[int, ...]] | None:
    """Values of ``--input-shape`` by name; None if there are none.

    Raises:
        InputError: One is not of the form ``NAME:1,3,224,224``, or two are for the same input.
    """
    if not given:
        return None
    from onnxcast.verification.feeds import parse_input_shape

    chosen: dict[str, tuple[int, ...]] = {}
    for name, shape in map(parse_input_shape, given):
        if name in chosen:
            raise InputError(f"--input-shape for {name!r}: given twice; give one")
        chosen[name] = shape
    return chosen
