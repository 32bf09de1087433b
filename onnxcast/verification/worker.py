"""The process that runs onnxruntime, so that its crashes are not ours.

Started as `python -m onnxcast.verification.worker`. Reads one JSON request a line from stdin until
it closes and answers each with one line of JSON on stdout:

    {"model": path, "level": "disable_all" | "default",
     "feeds": [path.npz, ...], "out": [path.npz, ...], "outputs": [name, ...] | null,
     "against": {"model": path, "feeds": [path.npz, ...], "tolerance": [max, rms]} | absent}

    {"ok": true, "outputs": [name, ...], "seconds": float, "differences": [{...}, ...] | absent}
    {"ok": false, "kind": "not_implemented" | "load" | "run", "message": one line}

A request makes one session and runs it once for each feeds file, so without feeds it only loads.
The session is kept for the next request, in case that is for the same file, unchanged.
With `against`, outputs are not written but compared with those of that model.
The files are those of `onnxcast.verification.values`.
"""

import json
import os
import pathlib
import re
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

from onnxcast.verification.mapping import Weights, mapped
from onnxcast.verification.values import read_values, write_values

__all__ = ["Sessions", "answer", "main"]

# onnxruntime's Python interface cannot pass these on, or passes raw bits as integers.
_NOT_IN_NUMPY = re.compile(r"bfloat16|float8|float4|int4|int2\b")


def main() -> None:
    """Serves requests until stdin closes, which it also does when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which may go on
    protocol, sessions = _claim_stdout(), Sessions()
    for line in sys.stdin:
        protocol.write(json.dumps(answer(json.loads(line), sessions)) + "\n")
        protocol.flush()


class Sessions:
    """Makes sessions, and keeps the last one."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._session: Any = None
        self._weights: Weights = {}

    def get(self, model: str, level: str) -> tuple[Any, Weights]:
        """A session for the file as it is now, and the weights that it is to be fed."""
        stat = os.stat(model)
        key = (model, level, stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if key != self._key:
            self._key = self._session = None  # let go of one before there is another
            self._session = _session(model, level)
            self._weights = mapped(pathlib.Path(model))
            self._key = key
        return self._session, self._weights


def answer(request: dict[str, Any], sessions: Sessions) -> dict[str, Any]:
    """Carries out one request; whatever onnxruntime raises becomes an answer."""
    start = time.perf_counter()
    stage = "load"
    try:
        session, weights = sessions.get(request["model"], request["level"])
        names = request["outputs"] or [value.name for value in session.get_outputs()]
        stage = "run"
        if request["feeds"]:
            _refuse_foreign_types([*session.get_inputs(), *session.get_outputs()])
        found = {}
        if "against" in request:
            found["differences"] = _differences(session, names, request, weights)
        elif request["feeds"]:
            _run(session, names, request["feeds"], request["out"], weights)
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        kind = "not_implemented" if "NOT_IMPLEMENTED" in message else stage
        return {"ok": False, "kind": kind, "message": message}
    return {"ok": True, "outputs": names, **found, "seconds": time.perf_counter() - start}


def _claim_stdout() -> TextIO:
    """Keeps the real stdout for the answers and sends everybody else's writes to stderr."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return protocol


def _session(model: str, level: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # The Casts that round to a narrow type and back must survive: cast chain elimination, which
    # would remove them, is off unless asked for, and stays so.
    if level == "disable_all":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _refuse_foreign_types(values: Iterable[Any]) -> None:
    for value in values:
        if _NOT_IN_NUMPY.search(value.type):
            raise TypeError(
                f"NOT_IMPLEMENTED : onnxruntime cannot exchange '{value.name}' with Python, "
                f"its type is {value.type}"
            )


def _run(
    session: Any, names: list[str], feeds: list[str], out: list[str], weights: Weights
) -> None:
    for source, target in zip(feeds, out, strict=True):
        results = session.run(names, {**weights, **read_values(pathlib.Path(source))})
        write_values(pathlib.Path(target), dict(zip(names, results, strict=True)))


def _differences(
    session: Any, names: list[str], request: dict[str, Any], weights: Weights
) -> list[dict[str, Any]]:
    from onnxcast.verification.comparison import Tolerance
    from onnxcast.verification.differences import differences

    against = request["against"]
    other = _session(against["model"], request["level"])
    others = mapped(pathlib.Path(against["model"]))
    samples = [
        (
            {**weights, **read_values(pathlib.Path(first))},
            {**others, **read_values(pathlib.Path(second))},
        )
        for first, second in zip(request["feeds"], against["feeds"], strict=True)
    ]
    return differences((session, other), names, samples, Tolerance(*against["tolerance"]))


if __name__ == "__main__":
    main()
