"""Targets by name: built in, from other packages, or from a file."""

import difflib
import functools
import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT16
from onnxcast.targets.ascend import ASCEND910B, ASCEND950
from onnxcast.targets.atc import ATC_ASCEND310P, ATC_ASCEND910B
from onnxcast.targets.neuron import TRN1, TRN2, TRN3
from onnxcast.targets.profile import read_profile
from onnxcast.targets.runtimes import ONNXRUNTIME_CUDA, TENSORRT
from onnxcast.targets.target import Target

__all__ = ["GENERIC", "GROUP", "all_targets", "get_target", "target_names"]

GENERIC = Target(name="generic", preferred=FLOAT16)

GROUP = "onnxcast.targets"
"""Entry points of other packages: each is a `Target`, under its name."""

_BUILT_IN = (
    *(GENERIC, ASCEND910B, ASCEND950, ATC_ASCEND310P, ATC_ASCEND910B),
    *(ONNXRUNTIME_CUDA, TENSORRT),
    *(TRN1, TRN2, TRN3),
)


def all_targets() -> list[Target]:
    """Every target that is known by name, those of other packages last.

    Raises:
        InputError: An entry point cannot be loaded, or takes a name that is taken.
    """
    return list(dict.fromkeys(load() for load in _known().values()))


def target_names() -> list[str]:
    """Names of all targets, without their aliases."""
    return sorted(target.name for target in all_targets())


def get_target(target: str | os.PathLike[str] | Target | None) -> Target:
    """A target by its name, by an alias or from a profile (a path that ends in ``.toml``).

    A `Target` is returned as it is, None means the generic one.

    Raises:
        InputError: An unknown name (the known ones are listed), a bad profile, or a bad entry point
            of that name.
    """
    if isinstance(target, Target):
        return target
    if target is None:
        return GENERIC
    if isinstance(target, os.PathLike) or str(target).endswith(".toml"):
        return read_profile(Path(target))
    name, known = str(target), _known()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(
            f"unknown target {target!r}: known are {', '.join(known)}, or a profile FILE.toml{hint}"
        )
    return known[name]()


def _known() -> dict[str, Callable[[], Target]]:
    """What gives each target, by names and aliases; of other packages nothing is loaded yet."""
    known: dict[str, Callable[[], Target]] = {}
    for target in _BUILT_IN:
        for name in (target.name, *target.aliases):
            known[name] = functools.partial(get_target, target)
    for entry in importlib.metadata.entry_points(group=GROUP):
        load = _taken if entry.name in known else _loaded
        known[entry.name] = functools.partial(load, entry)
    return known


def _taken(entry: importlib.metadata.EntryPoint) -> Target:
    raise InputError(
        f"target {entry.name!r} of {_package(entry)}: the name is taken; remove the package"
    )


def _loaded(entry: importlib.metadata.EntryPoint) -> Target:
    try:
        target = entry.load()
    except Exception as error:  # whatever another package's import raises
        raise InputError(
            f"target {entry.name!r} of {_package(entry)}: {type(error).__name__}: {error}; "
            "repair or remove the package"
        ) from error
    if not isinstance(target, Target):
        raise InputError(
            f"target {entry.name!r} of {_package(entry)}: {entry.value} is no onnxcast.Target; "
            "repair or remove the package"
        )
    if entry.name not in (target.name, *target.aliases):
        raise InputError(
            f"target {entry.name!r} of {_package(entry)}: it calls itself {target.name!r}; give "
            "both one name"
        )
    return target


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return "a package" if entry.dist is None else entry.dist.name
