"""Which nodes must stay wide so that the result verifies, from measured figures and by trial."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.planning import Plan, pin, pinned, unpin

__all__ = ["fewest", "out_of_range", "pinned_only"]

# Another sample may reach further than those that were measured.
_HEADROOM = 2.0


def out_of_range(plan: Plan, ranges: Mapping[str, float]) -> dict[ir.Node, str]:
    """The nodes that `plan` narrows although their values leave the format, with the figure.

    Args:
        plan: What would be narrowed.
        ranges: Largest magnitude of each value by name.
    """
    found: dict[ir.Node, str] = {}
    for group, format_ in plan.narrow():
        for value in (*group.operand_values(), *group.result_values()):
            reached = ranges.get(value.name or "", 0.0)
            if _leaves(reached, format_):
                found[group.node] = f"{value.name} reaches {reached:.6g}"
    return found


def _leaves(magnitude: float, format_: Format) -> bool:
    rounded = formats.round_to(np.array([magnitude * _HEADROOM]), format_)
    return not np.isfinite(rounded[0])


@contextlib.contextmanager
def pinned_only(ranking: Sequence[tuple[ir.Node, float]]) -> Iterator[None]:
    """Pin nodes with their errors for a while; those that are pinned already stay so."""
    fresh = [(node, error) for node, error in ranking if not pinned(node)]
    for node, error in fresh:
        pin(node, f"own error {error:.3g}")
    try:
        yield
    finally:
        for node, _ in fresh:
            unpin(node)


def fewest(count: int, attempt: Callable[[int], bool], *, trials: int = 20) -> int | None:
    """The smallest number found, from 1 to `count`, that `attempt` accepts.

    Doubles until a number is accepted, then halves the gap to the last one refused. Exact if
    whatever accepts a number accepts all larger ones; else still a number that was accepted.

    Args:
        count: The largest number to try.
        attempt: Tries a number.
        trials: At most so many attempts; `count` itself is tried before they run out.

    Returns:
        The number; None if even `count` is refused.
    """
    if count < 1:
        return None
    refused, accepted, size = 0, None, 1
    while accepted is None and trials > 0:
        size = count if trials == 1 else min(size, count)
        trials -= 1
        if attempt(size):
            accepted = size
        elif size == count:
            return None
        else:
            refused, size = size, 2 * size
    while accepted is not None and accepted - refused > 1 and trials > 0:
        middle = (refused + accepted) // 2
        trials -= 1
        if attempt(middle):
            accepted = middle
        else:
            refused = middle
    return accepted
