"""Values that control flow ties together: they hold the same elements, so they share a type.

Both ends of an If, each state of a Loop or Scan at entry, body and exit, and what is stacked or
taken apart step by step. Source: the If, Loop and Scan sections of ONNX's Operators.md.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import onnx_ir as ir

from onnxcast.graph.walk import bodies

__all__ = ["Exit", "Tie", "states", "ties"]

Exit: TypeAlias = tuple[ir.Graph, int]
"""A position among the outputs of a body."""


class Tie(NamedTuple):
    """What one value that crosses the boundary of `bodies` goes by.

    Attributes:
        operands: Indices of the node's operands.
        results: Indices of its results.
        entries: Inputs of the body.
        exits: Outputs of the bodies.
    """

    operands: tuple[int, ...]
    results: tuple[int, ...]
    entries: tuple[ir.Value, ...]
    exits: tuple[Exit, ...]


def ties(node: ir.Node) -> list[Tie]:
    """The ties of an If, a Loop or a Scan; none of other nodes."""
    if node.domain not in ("", "ai.onnx"):
        return []
    inner = bodies(node)
    if node.op_type == "If":
        return [
            Tie((), (index,), (), tuple((body, index) for body in inner))
            for index in range(len(node.outputs))
            if all(index < len(body.outputs) for body in inner)
        ]
    if len(inner) != 1:
        return []
    (body,) = inner
    if node.op_type == "Loop":
        # The trip count and the condition come first, and the condition is given back.
        return list(_looped(node, body, len(body.inputs) - 2, 2, 1))
    scanned = node.attributes.get("num_scan_inputs")
    # Scan-8 has batches, and hands in lengths first.
    fits = node.op_type == "Scan" and len(node.inputs) == len(body.inputs)
    if not fits or scanned is None or scanned.is_ref():
        return []
    return list(_looped(node, body, max(0, len(body.inputs) - scanned.as_int()), 0, 0))


def states(node: ir.Node) -> list[Tie]:
    """The ties of what a Loop or a Scan carries from step to step."""
    return [tie for tie in ties(node) if tie.entries and tie.exits]


def _looped(
    node: ir.Node, body: ir.Graph, carried: int, before: int, given_back: int
) -> Iterator[Tie]:
    """The ties of a body that runs many times.

    Args:
        node: The Loop or Scan.
        body: Its body.
        carried: The number of states.
        before: Inputs of node and body that come before the states.
        given_back: Outputs of the body that come before the states.
    """
    for index in range(min(len(node.outputs), len(body.outputs) - given_back)):
        exits = ((body, index + given_back),)
        if index >= carried:
            yield Tie((), (index,), (), exits)
        elif index + before < len(node.inputs):
            yield Tie((index + before,), (index,), (body.inputs[index + before],), exits)
    for index in range(before + carried, min(len(node.inputs), len(body.inputs))):
        yield Tie((index,), (), (body.inputs[index],), ())
