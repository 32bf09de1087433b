"""Where jobs run: on any `concurrent.futures.Executor`, by default as processes of this machine."""

__all__ = ["Runner", "execute", "on_cluster", "on_this_machine"]

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, as_completed

from onnxcast import InputError

from .jobs import Job, Limits, run_job
from .rows import Row

Runner = tuple[Executor, Callable[[Job], Row]]
"""An executor, and what it is to call for each job."""

_CONNECT_SECONDS = 20


def execute(jobs: Sequence[Job], runner: Runner) -> Iterator[Row]:
    """Run jobs and yield the row of each as it ends; a job that its executor lost is a row, too."""
    executor, run = runner
    waiting: dict[Future[Row], Job] = {executor.submit(run, job): job for job in jobs}
    try:
        for future in as_completed(waiting):
            yield _row(future, waiting[future])
    finally:
        for future in waiting:
            future.cancel()


def _row(future: "Future[Row]", job: Job) -> Row:
    try:
        return future.result()
    except (Exception, CancelledError) as error:  # whatever an executor says of workers it lost
        return job.row("crashed", f"its executor gave it up: {type(error).__name__}: {error}")


@contextlib.contextmanager
def on_this_machine(count: int, limits: Limits) -> Iterator[Runner]:
    """Run `count` jobs at once, which share the processors evenly.

    Threads wait for the processes; leaving early ends these.
    """
    shares: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
    for index in range(count):
        shares.put(_share(index, count))
    stop = threading.Event()

    def run(job: Job) -> Row:
        cpus = shares.get()
        try:
            return run_job(job, limits, cpus=cpus, stop=stop)
        finally:
            shares.put(cpus)

    with ThreadPoolExecutor(count, thread_name_prefix="onnxcast-zoo") as executor:
        try:
            yield executor, run
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            stop.set()


def _share(index: int, count: int) -> Sequence[int]:
    """The processors of one of `count` jobs, so that they do not fight for them."""
    if not hasattr(os, "sched_getaffinity"):  # macOS and Windows: each takes what it gets
        return ()
    usable = sorted(os.sched_getaffinity(0))
    return usable[index::count] or [usable[index % len(usable)]]


@contextlib.contextmanager
def on_cluster(address: str, limits: Limits) -> Iterator[Runner]:
    """Run jobs on a Dask cluster, whose workers see the same files under the same paths.

    What a worker that dies was doing is done again by another.

    Args:
        address: Of the scheduler, such as ``tcp://host:8786``.
        limits: What each job may take.

    Raises:
        InputError: Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--scheduler needs Dask; install it by: pip install 'onnxcast[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"{address}: no scheduler answers ({error}); wanted the address of a Dask scheduler, "
            "such as tcp://host:8786"
        ) from None
    with client:
        yield client.get_executor(pure=False), functools.partial(run_job, limits=limits)
