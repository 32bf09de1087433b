"""Options and arguments that the subcommands of ``onnxcast zoo`` share."""

__all__ = ["cache_folder", "choose", "entries", "tags"]

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from onnxcast.errors import InputError

from .options import MODEL

if TYPE_CHECKING:
    from onnxcast_models.entries import Entry

_Item = TypeVar("_Item")

cache_folder = click.option(
    "--cache", type=MODEL, metavar="DIR", help="Where models are kept [default: ~/.cache/onnxcast]."
)
tags = click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Models with this tag alone (repeatable)."
)


def entries(names: Sequence[str], tags: Sequence[str]) -> "list[Entry]":
    """The entries of the catalogue with these names, and with any of these tags.

    Raises:
        InputError: There is no such name or tag.
    """
    from onnxcast_models.catalogue import CATALOGUE

    known = sorted({tag for entry in CATALOGUE for tag in entry.tags})
    choose(tags, {tag: tag for tag in known}, "tag")
    chosen = choose(names, {entry.name: entry for entry in CATALOGUE}, "model")
    return [entry for entry in chosen if not tags or entry.tags & set(tags)]


def choose(names: Sequence[str], known: Mapping[str, _Item], what: str) -> list[_Item]:
    """What `names` name among `known`; all if there are none.

    Raises:
        InputError: One names nothing.
    """
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"no {what} {name!r}: known are {', '.join(known)}{hint}")
    return [known[name] for name in names] or list(known.values())
