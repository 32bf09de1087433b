"""The command itself: its subcommands, and every fault as one line and an exit code.

Whatever ends the command early unwinds it, so that temporary folders go.
"""

__all__ = ["command", "main"]

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from onnxcast.errors import OnnxcastError

from .console import fail, fill_closed_streams, printable, silence
from .explain import explain
from .inspect import inspect
from .optimize import optimize
from .options import help_alone
from .targets import targets
from .verify import verify
from .zoo import zoo

_BAD_USAGE = 2
_NO_SYSTEM = 1
_INTERRUPTED = 130
_TERMINATED = 143


class _Terminated(BaseException):
    """SIGTERM came."""


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="onnxcast", message="%(prog)s %(version)s")
@click.pass_context
def command(context: click.Context) -> int | None:
    """Turn float32 ONNX models into mixed precision, and prove that the outputs still match.

    \b
    Examples:
      onnxcast inspect model.onnx
      onnxcast optimize model.onnx --fp32-cast all-fp16 --inputs samples.npz
      onnxcast verify model.onnx model.float16.onnx --inputs samples.npz

    \b
    Exit codes:
      0    done
      1    the model cannot be made so, its outputs do not match, or --check
           found something to do
      2    bad usage, or an input that cannot be read or is not valid
      130  interrupted; 143 for SIGTERM
    """
    return help_alone(context)


for _subcommand in (optimize, verify, inspect, explain, targets, zoo):
    command.add_command(_subcommand)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments, by default those of the process.

    Returns:
        The exit code: 0 done; 1 the model cannot be made or does not match; 2 bad usage or input;
        130 interrupted; 143 terminated.
    """
    fill_closed_streams()
    args = None if argv is None else list(argv)
    with _warnings_told():
        try:
            with _sigterm_raised():
                code = command.main(args, prog_name="onnxcast", standalone_mode=False)
        except OnnxcastError as error:
            fail(str(error))
            code = error.exit_code
        except click.ClickException as error:
            fail(_usage_text(error))
            code = _BAD_USAGE
        except (click.Abort, KeyboardInterrupt):
            fail("interrupted")
            code = _INTERRUPTED
        except _Terminated:
            fail("terminated")
            code = _TERMINATED
        except MemoryError:
            fail("out of memory; give smaller samples, or a machine with more of it")
            code = _NO_SYSTEM
        except OSError as error:
            code = _system_fault(error)
    return int(code or 0)


def _system_fault(error: OSError) -> int:
    """Say what the system refused: room for temporary files, or a full disk under stdout."""
    silence(sys.stdout)
    if not isinstance(error, BrokenPipeError):  # else whoever read our output has left
        where = f"{error.filename}: " if error.filename else "the output or a temporary file: "
        fail(f"{where}{error.strerror or error}")
    return _NO_SYSTEM


@contextlib.contextmanager
def _sigterm_raised() -> Iterator[None]:
    """Let SIGTERM, where it would end the process at once, raise instead, as SIGINT does."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def raise_(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not stop the cleaning up
        raise _Terminated

    signal.signal(signal.SIGTERM, raise_)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _usage_text(error: click.ClickException) -> str:
    text = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return text if context is None else f"{text}; see {context.command_path} --help"


class _Warning(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One that no name in it can steer a terminal with."""
        return printable(super().format(record))


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """Show what the library warns of in the form of our own lines."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Warning("onnxcast: warning: %(message)s"))
    library = logging.getLogger("onnxcast")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)
