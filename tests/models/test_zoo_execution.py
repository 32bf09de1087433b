import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onnxcast import InputError
from onnxcast_models.execution import execute, on_cluster, on_this_machine
from onnxcast_models.jobs import Job, Limits
from onnxcast_models.rows import Mode, Row
from onnxcast_models.subjects import find_subjects
from onnxcast_models.suite import jobs_of, left
from tests.zoo_folder import Break

MODES = [Mode("all-fp16"), Mode("none")]


@pytest.fixture
def jobs(folder: Path) -> list[Job]:
    jobs: list[Job] = jobs_of(find_subjects(folder), MODES, None)
    return jobs


class Inline(Executor):
    """Does what is submitted at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def done(job: Job) -> Row:
    return job.row("written")


def test_jobs_run_on_any_executor(jobs: list[Job]) -> None:
    wanted = {job.key for job in jobs}
    assert len(wanted) == 4
    assert {row.key for row in execute(jobs, (Inline(), done))} == wanted
    with ProcessPoolExecutor(1) as pool:
        assert {row.key for row in execute(jobs, (pool, done))} == wanted


def test_a_job_that_its_executor_lost_is_a_row(jobs: list[Job]) -> None:
    def lost(job: Job) -> Row:
        if job.token == "none":
            raise ConnectionError("the worker is gone")
        return done(job)

    rows = list(execute(jobs, (Inline(), lost)))
    assert sorted(row.outcome for row in rows) == ["crashed"] * 2 + ["written"] * 2
    assert {row.cause for row in rows if row.outcome == "crashed"} == {
        "its executor gave it up: ConnectionError: the worker is gone"
    }


def test_this_machine_runs_every_job(jobs: list[Job]) -> None:
    with on_this_machine(2, Limits()) as runner:
        rows = list(execute(jobs, runner))
    assert {(row.key, row.outcome) for row in rows} == {(job.key, "written") for job in jobs}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs processor affinity")
def test_jobs_share_the_processors(jobs: list[Job], break_jobs: Break, tmp_path: Path) -> None:
    log = tmp_path / "cpus"
    break_jobs(
        "import atexit, onnxcast.api, os\n"
        "def tell(*args, **options):\n"
        f"    with open({str(log)!r}, 'a') as file:\n"
        "        print(len(os.sched_getaffinity(0)), file=file)\n"
        "    raise ValueError\n"
        "onnxcast.api.optimize = tell"
    )
    usable = len(os.sched_getaffinity(0))
    with on_this_machine(usable, Limits()) as runner:
        assert len(list(execute(jobs, runner))) == len(jobs)
    assert set(log.read_text().split()) == {"1"}


def test_leaving_early_ends_what_runs(jobs: list[Job], break_jobs: Break) -> None:
    break_jobs("import time; time.sleep(60)")
    start = time.monotonic()

    def leave() -> None:
        with on_this_machine(2, Limits()) as runner:
            executor, run = runner
            for job in jobs:
                executor.submit(run, job)
            time.sleep(0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert time.monotonic() - start < 20


def test_what_has_a_row_is_not_done_again(jobs: list[Job]) -> None:
    rows = [done(jobs[0]), done(jobs[2])]
    todo, known = left(jobs, rows)
    assert [job.key for job in todo] == [jobs[1].key, jobs[3].key]
    assert known == rows
    other = Row(name=jobs[0].name, token=jobs[0].token, digest="another model", outcome="written")
    assert left(jobs, [other])[0] == jobs


def test_no_scheduler_is_bad_usage() -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(InputError, match="wanted the address of a Dask scheduler"),
        on_cluster("no address", Limits()),
    ):
        pass
