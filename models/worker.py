"""The process of one job: ``python -m onnxcast_models.worker``.

Reads the job as one line of JSON from stdin and answers with its row on stdout. When stdin closes,
whoever asked is gone, and so is this process with all that it started.
"""

__all__ = ["main"]

import json
import os
import signal
import sys
import threading
from typing import Any, TextIO


def main() -> None:
    """Do the job."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_leave_with, args=(sys.stdin,), daemon=True).start()
    _limit(request.pop("megabytes"), request.pop("cpus"))
    from .jobs import Job
    from .measuring import measure

    request["samples"] = tuple(request["samples"])
    json.dump(measure(Job(**request)).to_dict(), answers)
    answers.close()
    # What libraries do at exit is not worth waiting for, and has crashed.
    os._exit(0)


def _leave_with(stdin: TextIO) -> None:
    stdin.read()
    if sys.platform == "win32":  # which has no process groups
        os._exit(1)
    os.killpg(0, signal.SIGKILL)


def _limit(megabytes: int, cpus: list[int]) -> None:
    """Limit the address space, and the processors: libraries start a thread for each."""
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
        return
    most: Any = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = megabytes << 20
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


if __name__ == "__main__":
    main()
