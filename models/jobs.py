"""One conversion as a job: in a process of its own, under limits, told as a row.

Whatever becomes of that process, there is a row. It ends with the one that started it.
"""

__all__ = ["Job", "Limits", "run_job"]

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxcast.files.temporary import TemporaryFolder
from onnxcast.verification.children import child_environment, death

from .rows import Mode, Outcome, Row
from .subjects import Subject

_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One conversion, in words that can be sent to another machine that sees the same files.

    Attributes:
        name: Of the model.
        model: Its path.
        samples: See `Subject`.
        labels: See `Subject`.
        token: The mode.
        target: The name of the target.
        tolerance: What passes; None for the default.
        digest: Of the model and its samples.
        profile: See `Mode`.
        out: Where to keep the result, or None.
        report: Where to keep its report, with a drawing, or None.
    """

    name: str
    model: str
    samples: tuple[str, ...]
    labels: str | None
    token: str
    target: str
    tolerance: float | None
    digest: str
    profile: str = ""
    out: str | None = None
    report: str | None = None

    @classmethod
    def of(
        cls, subject: Subject, mode: Mode, out: Path | None, reports: Path | None = None
    ) -> "Job":
        """What is to be done for a model in a mode."""
        name = f"{subject.name}.{mode}"
        return cls(
            name=subject.name,
            model=str(subject.model),
            samples=tuple(map(str, subject.samples)),
            labels=None if subject.labels is None else str(subject.labels),
            token=mode.token,
            target=mode.target,
            tolerance=subject.tolerance,
            digest=subject.digest,
            profile=mode.profile,
            out=None if out is None else str(out.absolute() / f"{name}.onnx"),
            report=None if reports is None else str(reports.absolute() / f"{name}.json"),
        )

    @property
    def key(self) -> tuple[str, str, str]:
        """That of its row."""
        return self.name, self.token, self.target

    def row(self, outcome: Outcome, cause: str = "", **figures: Any) -> Row:
        """A row of this job."""
        return Row(
            name=self.name,
            token=self.token,
            target=self.target,
            digest=self.digest,
            outcome=outcome,
            cause=" ".join(cause.split()),
            **figures,
        )


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a job may take.

    Attributes:
        seconds: Wall-clock time.
        megabytes: Address space of each of its processes; for systems that can limit it.
    """

    seconds: float = 600.0
    megabytes: int = 8192


def run_job(
    job: Job,
    limits: Limits,
    *,
    cpus: Sequence[int] = (),
    stop: threading.Event | None = None,
) -> Row:
    """Do a job in a process of its own.

    Args:
        job: What to do.
        limits: When it is ended.
        cpus: The processors that it may use; all by default.
        stop: Ends it when set.
    """
    request = {**dataclasses.asdict(job), "megabytes": limits.megabytes, "cpus": list(cpus)}
    start = time.monotonic()
    with (
        TemporaryFolder() as folder,
        Path(folder, "log").open("w+b") as log,
        Path(folder, "row").open("w+b") as told,
        _start(folder, told, log) as child,
    ):
        try:
            assert child.stdin is not None
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()  # and it stays open: the child ends when it closes
        except BrokenPipeError:
            pass
        limit = _wait(child, start + limits.seconds, stop)
        seconds = time.monotonic() - start
        told.seek(0)
        row = _told(told.read())
        if row is not None and not limit:
            return dataclasses.replace(row, seconds=round(seconds, 2))
        cause = f"took more than {limits.seconds:g} seconds" if limit == "time" else limit
        log.seek(0)
        cause = cause or f"its process {death(child.returncode, log.read())}"
        return job.row("crashed", cause, seconds=seconds)


def _start(folder: str, told: Any, log: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "onnxcast_models.worker"],
        stdin=subprocess.PIPE,
        stdout=told,
        stderr=log,
        # `python -m` looks here first: an empty folder cannot hide the packages we mean.
        cwd=folder,
        # What it leaves in a temporary folder when it is ended goes with this one.
        env={**child_environment(), **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)},
        start_new_session=True,  # its own children end with it
    )


def _wait(child: "subprocess.Popen[bytes]", deadline: float, stop: threading.Event | None) -> str:
    """Wait for `child`; return why it was ended, or ""."""
    try:
        while child.poll() is None:
            if time.monotonic() > deadline:
                return "time"
            if stop is not None and stop.wait(_POLL_SECONDS):
                return "interrupted"
            if stop is None:
                time.sleep(_POLL_SECONDS)
        return ""
    finally:
        _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End what is left of a child and of the processes that it started."""
    if sys.platform == "win32":  # which has no process groups
        child.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all have left
        os.killpg(child.pid, signal.SIGKILL)


def _told(output: bytes) -> Row | None:
    try:
        return Row.from_dict(json.loads(output))
    except (ValueError, TypeError):
        return None
