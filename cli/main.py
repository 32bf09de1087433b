"""The command itself: its subcommands, and every fault as one line and an exit code."""

__all__ = ["main"]

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence

import click

from onnxcast.errors import OnnxcastError

from .console import fail
from .inspect import inspect
from .optimize import optimize
from .options import help_alone
from .verify import verify
from .zoo import zoo

_BAD_USAGE = 2
_READER_GONE = 1
_INTERRUPTED = 130


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="onnxcast", message="%(prog)s %(version)s")
@click.pass_context
def _onnxcast(context: click.Context) -> int | None:
    """Turn float32 ONNX models into mixed precision, and prove that the outputs still match.

    \b
    Examples:
      onnxcast inspect model.onnx
      onnxcast optimize model.onnx --fp32-cast all-fp16 --inputs samples.npz
      onnxcast verify model.onnx model.float16.onnx --inputs samples.npz

    \b
    Exit codes:
      0  done
      1  the model cannot be made under these options, or its outputs do not match
      2  bad usage, or an input that cannot be read or is not valid
    """
    return help_alone(context)


for _command in (optimize, verify, inspect, zoo):
    _onnxcast.add_command(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments, by default those of the process.

    Returns:
        The exit code: 0 done; 1 the model cannot be made or does not match; 2 bad usage or input.
    """
    args = None if argv is None else list(argv)
    with _warnings_told():
        try:
            code = _onnxcast.main(args, prog_name="onnxcast", standalone_mode=False)
        except OnnxcastError as error:
            fail(str(error))
            return error.exit_code
        except click.ClickException as error:
            fail(_usage_text(error))
            return _BAD_USAGE
        except (click.Abort, KeyboardInterrupt):
            fail("interrupted")
            return _INTERRUPTED
        except BrokenPipeError:
            # Whoever read our output has left; Python would complain once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _READER_GONE
    return int(code or 0)


def _usage_text(error: click.ClickException) -> str:
    text = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return text if context is None else f"{text}; see {context.command_path} --help"


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """Show what the library warns of in the form of our own lines."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("onnxcast: warning: %(message)s"))
    library = logging.getLogger("onnxcast")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)
