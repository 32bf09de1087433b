"""Work done ahead of its use, on all cores, in order: reading and rounding while others write."""

__all__ = ["ahead", "aside"]

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")

_MOST_THREADS = 8
_MOST_WAITING = 16


def ahead(jobs: Iterable[Callable[[], _T]]) -> Iterator[_T]:
    """Yield the results of `jobs` in order, up to 16 of them computed before they are asked for.

    Jobs run in threads, so they should leave the interpreter most of the time, as numpy and files
    do. What one raises is raised where its result would be yielded. A single job needs no thread.
    """
    jobs = iter(jobs)
    first = list(itertools.islice(jobs, 2))
    if len(first) < 2:
        yield from (job() for job in first)
        return
    threads = min(_cores(), _MOST_THREADS)
    waiting: deque[Future[_T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="onnxcast") as pool:
        try:
            for job in itertools.chain(first, jobs):
                waiting.append(pool.submit(job))
                if len(waiting) > _MOST_WAITING:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def aside(job: Callable[[], _T]) -> Callable[[], _T]:
    """Begin `job` in a thread of its own; what is returned waits for its result, or raises."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="onnxcast")
    begun = pool.submit(job)
    pool.shutdown(wait=False)
    return begun.result


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
