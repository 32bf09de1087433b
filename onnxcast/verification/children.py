"""Child processes: the packages that they find, and what they died of."""

import os
import pathlib
import signal
import sys

from onnxcast import errors

__all__ = ["child_environment", "death", "killer"]


def child_environment() -> dict[str, str]:
    """The environment in which a child finds the packages that this process uses."""
    home = str(pathlib.Path(errors.__file__).parents[1])
    paths = [path for path in sys.path if path]
    found = paths if home in paths else [home, *paths]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(found)}


def killer(code: int) -> str:
    """The name of the signal that a child with this exit code was killed by; "" if by none."""
    if code >= 0:
        return ""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def death(code: int, log: bytes) -> str:
    """What a child did in the end, and the last that it said in its log."""
    lines = [line.strip() for line in log.decode(errors="replace").split("\n") if line.strip()]
    last = f": {lines[-1]}" if lines else ""
    name = killer(code)
    return f"{f'was killed by {name}' if name else f'exited with status {code}'}{last}"
