"""Running models in a child process, whose crashes are reported instead of shared.

The child is `onnxcast.verification.worker`, started as a program of its own: the multiprocessing
module would run the user's script a second time.
"""

import itertools
import json
import logging
import pathlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Literal

from onnxcast.files.temporary import TemporaryFolder
from onnxcast.graph.native import dismiss
from onnxcast.verification.budgets import Tolerance
from onnxcast.verification.children import child_environment, death, killer
from onnxcast.verification.values import Feeds, Value, read_values, write_values

__all__ = ["FailureKind", "Feeds", "Level", "RuntimeFailure", "Value", "Worker"]

_logger = logging.getLogger(__name__)

Level = Literal["disable_all", "default"]
"""How far onnxruntime may change the graph before it runs it."""

FailureKind = Literal["not_implemented", "load", "run", "crash", "timeout"]

_EXIT_SECONDS = 5.0


class RuntimeFailure(Exception):  # noqa: N818 - an outcome to report, often no error
    """onnxruntime did not run a model.

    Attributes:
        kind: `not_implemented`: it has no kernel for a node, or cannot exchange a type with Python.
            `load`, `run`: it refused to make a session, or a run failed. `crash`: it took its
            process down. `timeout`: it was stopped because it took too long.
        message: One line.
        signal: What killed the process, such as "SIGSEGV"; "" if nothing did.
    """

    def __init__(self, kind: FailureKind, message: str, *, signal: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.signal = signal


class Worker:
    """A child process that runs models, started when first needed and again after a crash.

    Use as a context manager: it owns the child and a folder of temporary files.

    Args:
        timeout: Seconds that one `run` or `load` may take; None for no limit.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._child: subprocess.Popen[str] | None = None
        self._folder: TemporaryFolder | None = None

    def __enter__(self) -> "Worker":  # noqa: PYI034 - typing.Self came with Python 3.11
        self._folder = TemporaryFolder()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._child is not None:
            dismiss(self._child, _EXIT_SECONDS)
        if self._folder is not None:
            self._folder.cleanup()
        self._child = self._folder = None

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is no child."""
        return self._child.pid if self._child is not None else None

    def run(
        self,
        model: pathlib.Path,
        feeds: Sequence[Feeds],
        *,
        level: Level,
        outputs: Sequence[str] | None = None,
    ) -> list[dict[str, Value]]:
        """Runs a model once for each sample, all in one session.

        Args:
            model: An ONNX file, with its external data where it says.
            feeds: The samples; their arrays have types that numpy has itself.
            level: How far onnxruntime may optimise the graph.
            outputs: Names of the outputs to return; None for all.

        Returns:
            For each sample, the value of each output by name, in the order asked for. An ONNX map
            is the list of its keys and its values.

        Raises:
            RuntimeFailure: It could not be run.
        """
        ins = [self._path(f"in-{index}.npz") for index in range(len(feeds))]
        outs = [self._path(f"out-{index}.npz") for index in range(len(feeds))]
        try:
            for path, sample in zip(ins, feeds, strict=True):
                write_values(path, sample)
            request = _request(model, level)
            request.update(feeds=[str(path) for path in ins], out=[str(path) for path in outs])
            request["outputs"] = None if outputs is None else list(outputs)
            self._ask(request)
            return [read_values(path) for path in outs]
        finally:
            for path in itertools.chain(ins, outs):
                path.unlink(missing_ok=True)

    def compare(
        self,
        models: tuple[pathlib.Path, pathlib.Path],
        feeds: tuple[Sequence[Feeds], Sequence[Feeds]],
        outputs: Sequence[str],
        tolerance: Tolerance,
    ) -> list[dict[str, Any]]:
        """Runs two models side by side, at the level that changes nothing.

        Args:
            models: ONNX files.
            feeds: The samples for one and for the other.
            outputs: What to compare, by the names that it has in both.
            tolerance: What passes.

        Returns:
            For each output the fields of a `Difference`.

        Raises:
            RuntimeFailure: One could not be run.
        """
        ins = [
            [self._path(f"{side}-{index}.npz") for index in range(len(samples))]
            for side, samples in zip(("first", "second"), feeds, strict=True)
        ]
        try:
            for path, sample in zip(itertools.chain(*ins), itertools.chain(*feeds), strict=True):
                write_values(path, sample)
            request = _request(models[0], "disable_all")
            request.update(feeds=list(map(str, ins[0])), outputs=list(outputs))
            request["against"] = {
                "model": str(models[1].absolute()),
                "feeds": list(map(str, ins[1])),
                "tolerance": [tolerance.max, tolerance.rms],
            }
            found: list[dict[str, Any]] = self._ask(request)["differences"]
            return found
        finally:
            for path in itertools.chain(*ins):
                path.unlink(missing_ok=True)

    def load(self, model: pathlib.Path, level: Level) -> None:
        """Makes a session and drops it.

        Raises:
            RuntimeFailure: The session could not be made.
        """
        self._ask(_request(model, level))

    def _path(self, name: str) -> pathlib.Path:
        assert self._folder is not None, "a Worker is used inside its `with` block"
        return pathlib.Path(self._folder.name, name)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request, waits until the child says that it is done, and returns its reply."""
        if self._child is not None and self._child.poll() is not None:
            dismiss(self._child, _EXIT_SECONDS)
            self._child = None
        if self._child is None:
            self._child = self._start()
        answer, timed_out = self._exchange(self._child, json.dumps(request))
        if not answer:
            raise self._bury(self._child, timed_out=timed_out)
        reply: dict[str, Any] = json.loads(answer)
        if not reply["ok"]:
            raise RuntimeFailure(reply["kind"], reply["message"])
        _logger.debug("%s at %s: %.2f s", request["model"], request["level"], reply["seconds"])
        return reply

    def _exchange(self, child: subprocess.Popen[str], request: str) -> tuple[str, bool]:
        """Returns the line the child answered, "" if it died, and whether its time was up."""
        assert child.stdin is not None
        assert child.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            child.kill()

        timer = threading.Timer(self._timeout or 0.0, expire)
        if self._timeout is not None:
            timer.start()
        try:
            child.stdin.write(request + "\n")
            child.stdin.flush()
            # What else is on this stream was printed while Python itself started.
            line = next((line for line in child.stdout if line.startswith("{")), "")
        except BrokenPipeError:
            line = ""
        except BaseException:
            # An interrupted request is still being worked on; its answer must not meet the next.
            child.kill()
            child.wait()  # or it would look alive to the next
            raise
        finally:
            timer.cancel()
        return "" if expired.is_set() else line, expired.is_set()

    def _start(self) -> subprocess.Popen[str]:
        with self._path("worker.log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                # `python -m` looks here first: an empty folder cannot hide the packages we mean.
                cwd=self._path("."),
                env=child_environment(),
            )

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "onnxcast.verification.worker"]

    def _bury(self, child: subprocess.Popen[str], *, timed_out: bool) -> RuntimeFailure:
        """Says what a dead child died of."""
        dismiss(child, _EXIT_SECONDS)
        self._child = None
        if timed_out:
            return RuntimeFailure(
                "timeout", f"onnxruntime took more than {self._timeout:g} seconds"
            )
        code, log = child.returncode, self._path("worker.log").read_bytes()
        message = f"onnxruntime's process {death(code, log)}"
        return RuntimeFailure("crash", message, signal=killer(code))


def _request(model: pathlib.Path, level: Level) -> dict[str, Any]:
    path = str(pathlib.Path(model).absolute())
    return {"model": path, "level": level, "feeds": [], "out": [], "outputs": None}
