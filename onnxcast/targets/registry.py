"""Targets by name."""

import difflib

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT16
from onnxcast.targets.target import Target

__all__ = ["GENERIC", "get_target", "target_names"]

GENERIC = Target(name="generic", preferred=FLOAT16)


def _builtin() -> dict[str, Target]:
    return {target.name: target for target in (GENERIC,)}


def target_names() -> list[str]:
    """Names of all targets."""
    return sorted(_builtin())


def get_target(target: str | Target | None) -> Target:
    """A target by its name; a `Target` is returned as it is, None means the generic one.

    Raises:
        InputError: An unknown name (the known ones are listed).
    """
    if isinstance(target, Target):
        return target
    if target is None:
        return GENERIC
    known = _builtin()
    name = str(target)  # whatever it is: only names are known
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"unknown target {target!r}: known are {', '.join(known)}{hint}")
    return known[name]
