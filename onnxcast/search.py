"""Which nodes must stay wide so that the result verifies, from a ranking and by trial."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import onnx_ir as ir

from onnxcast.planning import PinLevel, pin, pin_level, pinned, unpin

__all__ = ["Pins", "fewest", "growing", "pinned_only"]

Pins: TypeAlias = Mapping[ir.Node, tuple[str, PinLevel]]
"""Nodes with the figure that pins them, and how much of them stays wide."""


@contextlib.contextmanager
def pinned_only(pins: Pins) -> Iterator[None]:
    """Pin nodes for a while, with figures and levels; what is pinned already keeps its figure."""
    before = {node: (pinned(node), pin_level(node)) for node in pins}
    for node, (figure, level) in pins.items():
        known, known_level = before[node]
        if known_level is PinLevel.NONE or level is PinLevel.WIDE:
            pin(node, known or figure, level)
    try:
        yield
    finally:
        for node, (known, known_level) in before.items():
            if known_level is PinLevel.NONE:
                unpin(node)
            else:
                pin(node, known, known_level)


def growing(first: int, count: int) -> Iterator[int]:
    """Numbers from `first` up to `count`, each a quarter larger than the one before."""
    size = min(first, count)
    while size < count:
        yield size
        size += max(1, size // 4)
    yield count


def fewest(count: int, attempt: Callable[[int], bool]) -> int | None:
    """The smallest number found, from 0 to `count`, that `attempt` accepts.

    Exact if whatever accepts a number accepts all larger ones; else still a number that was
    accepted.

    Returns:
        The number; None if even `count` is refused.
    """
    if not attempt(count):
        return None
    refused, accepted, size = -1, count, 0
    while accepted - refused > 1:
        if attempt(size):
            accepted = size
        else:
            refused = size
        # Few are likely, so it doubles up from below before it halves the gap.
        size = min(max(2 * refused, 1), (refused + accepted) // 2)
        size = max(size, refused + 1)
    return accepted
