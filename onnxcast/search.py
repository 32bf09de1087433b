"""Which nodes must stay wide so that the result verifies, from measured figures and by trial."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.planning import Decision, Group, PinLevel, Plan, pin, pin_level, pinned, unpin
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.ranges import Range

__all__ = ["fewest", "out_of_range", "pinned_only", "saturating", "with_producers"]

# Another sample may reach further than those that were measured.
_HEADROOM = 2.0

# A value whose largest elements would lose more than this much of themselves has vanished.
_LARGEST_RELATIVE_ERROR = 2.0**-6


def out_of_range(plan: Plan, ranges: Mapping[str, Range]) -> dict[ir.Node, str]:
    """The nodes that `plan` narrows although their values leave the format, with the figure.

    A value leaves the format if its largest elements would overflow, or be rounded away, or if a
    divisor would become zero.

    Args:
        plan: What would be narrowed.
        ranges: The range of each value by name.
    """
    found: dict[ir.Node, str] = {}
    for group, decision in plan.narrow():
        for value, divides in _rounded_values(group, decision):
            measured = ranges.get(value.name or "")
            figure = "" if measured is None else _figure(measured, decision.format, divides)
            if figure:
                found[group.node] = f"{value.name} {figure}"
    return found


def saturating(plan: Plan, ranges: Mapping[str, Range]) -> dict[str, int]:
    """How many elements of which values were beyond a format that has no infinity for them."""
    return {
        value.name or "": measured.beyond
        for group, decision in plan.narrow()
        if not decision.format.has_inf
        for value, _ in _rounded_values(group, decision)
        if (measured := ranges.get(value.name or "")) is not None and measured.beyond
    }


def with_producers(
    ranking: Sequence[tuple[ir.Node, float]], plan: Plan
) -> list[tuple[ir.Node, float]]:
    """`ranking` with the nodes that give a node its operands right behind it.

    A node's own error is mostly what the rounding of its operands makes of it, and a wide node
    reads them rounded as long as whoever gives them is narrow.
    """
    narrow = {group.node for group, _ in plan.narrow()}
    ordered: dict[ir.Node, float] = {}
    for node, error in ranking:
        ordered.setdefault(node, error)
        for source in _givers(node):
            if source in narrow:
                ordered.setdefault(source, error)
    return list(ordered.items())


def _givers(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes whose results `node` reads, directly or moved."""
    pending = list(node.inputs)
    while pending:
        value = pending.pop()
        producer = None if value is None else value.producer()
        if producer is not None and has_meaning(producer, Meaning.CARRIER):
            pending.extend(producer.inputs)
        elif producer is not None:
            yield producer


def _rounded_values(group: Group, decision: Decision) -> Iterator[tuple[ir.Value, bool]]:
    """The values that are rounded for `group`, each with whether it divides by it."""
    for index in decision.reads:
        value = group.node.inputs[index]
        if value is not None:
            yield value, index == 1 and has_meaning(group.node, Meaning.DIVIDING)
    for value in group.result_values() if decision.gives else ():
        yield value, False


def _figure(measured: Range, format_: Format, divides: bool) -> str:
    if _leaves(measured.absmax, format_):
        return f"reaches {measured.absmax:.6g}"
    if 0 < measured.absmax < _floor(format_):
        return f"reaches no further than {measured.absmax:.6g}"
    if divides and measured.smallest < 2.0 ** (format_.quantum - 1):
        return f"divides and goes down to {measured.smallest:.6g}"
    return ""


def _leaves(magnitude: float, format_: Format) -> bool:
    rounded = formats.round_to(np.array([magnitude * _HEADROOM]), format_, saturate=False)
    return not np.isfinite(rounded[0])


def _floor(format_: Format) -> float:
    """Below this magnitude rounding is too coarse, as subnormal numbers have few bits."""
    coarse = max(_LARGEST_RELATIVE_ERROR, 2.0**-format_.significand)
    return 2.0 ** (format_.quantum - 1) / coarse


@contextlib.contextmanager
def pinned_only(
    ranking: Sequence[tuple[ir.Node, float]], level: PinLevel = PinLevel.WEIGHTS
) -> Iterator[None]:
    """Pin nodes with their errors for a while; those that are pinned already stay so."""
    before = {node: (pinned(node), pin_level(node)) for node, _ in ranking}
    for node, error in ranking:
        figure, known = before[node]
        if known is PinLevel.NONE or level is PinLevel.WIDE:
            pin(node, figure or f"own error {error:.3g}", level)
    try:
        yield
    finally:
        for node, (figure, known) in before.items():
            if known is PinLevel.NONE:
                unpin(node)
            else:
                pin(node, figure, known)


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
