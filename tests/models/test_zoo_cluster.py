"""A real Dask cluster of a scheduler and two workers, of which one is killed midway."""

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnxcast.verification.children import child_environment
from onnxcast_models.store import read_rows
from tests.zoo_folder import Break

pytest.importorskip("distributed")

COPIES = 3


@contextlib.contextmanager
def started(*arguments: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is killed at the end."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            env=child_environment(),
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def rows_in(path: Path) -> int:
    return len(read_rows(path)) if path.exists() and path.stat().st_size else 0


def test_a_worker_that_is_killed_loses_nothing(
    folder: Path, break_jobs: Break, tmp_path: Path
) -> None:
    for name in ("product", "round_trip"):
        for k in range(COPIES):
            for path in folder.glob(f"{name}.*"):
                shutil.copy(path, folder / path.name.replace(name, f"{name}_{k}", 1))
    # A job leaves a trace when it begins, and takes long enough to be killed in the middle.
    trace = tmp_path / "trace"
    break_jobs(
        "import os, time\n"
        f"with open({str(trace)!r}, 'a') as file:\n"
        "    print(os.getppid(), file=file)\n"
        "time.sleep(1)"
    )
    where = tmp_path / "scheduler.json"
    results = tmp_path / "results.jsonl"
    scheduler = ("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard")
    worker = ("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    file = ("--scheduler-file", str(where))
    with contextlib.ExitStack() as stack:
        stack.enter_context(started(*scheduler, *file, folder=tmp_path))
        workers = [stack.enter_context(started(*worker, *file, folder=tmp_path)) for _ in "12"]
        until(where.exists)
        address = json.loads(where.read_text())["address"]
        command = ["onnxcast_cli", "zoo", "run", "--models", str(folder), "--token", "all-fp16"]
        command += ["--scheduler", address, "--results", str(results), "--json"]
        run = stack.enter_context(started(*command, folder=tmp_path))
        until(lambda: rows_in(results) >= 1 and busy(trace) == {each.pid for each in workers})
        workers[0].kill()
        before = rows_in(results)
        assert run.wait(120) == 0, (tmp_path / "log").read_text()
    rows = read_rows(results)
    names = sorted(path.stem for path in folder.glob("*.onnx"))
    assert before < len(rows)
    assert sorted(row.name for row in rows) == names
    assert {row.outcome for row in rows} == {"written"}


def busy(trace: Path) -> set[int]:
    """The workers that have begun a job."""
    return {int(line) for line in trace.read_text().split()} if trace.exists() else set()


def until(holds: "object", seconds: float = 90) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
