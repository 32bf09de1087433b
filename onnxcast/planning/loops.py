"""Sums that a loop carries from step to step, whose roundings would add up.

Before::

    total = Loop (n, go, zero) <body = step (i, on, sum) => (on, next) { next = Add (sum, x) }>

In float16 such a sum stalls at 2048 times the step. What leads from a state at the entry of the
body to the same state at its exit by element-wise arithmetic alone stays wide; a state that passes
through a product or a squashing function, as in a recurrent layer, is made anew in each step.
"""

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onnxcast.graph.ties import states
from onnxcast.graph.walk import label
from onnxcast.planning.cones import Pins
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Meaning, has_meaning

__all__ = ["carried_pins"]


def carried_pins(nodes: Iterable[ir.Node]) -> Pins:
    """Nodes of loop bodies that add to a state; `nodes` are those of all scopes."""
    pins: Pins = {}
    for node in nodes:
        for tie in states(node) if node.attributes.data else ():
            (entry,), ((body, index),) = tie.entries, tie.exits
            why = (Reason.STATISTICS, f"carried by {label(node)}")
            pins.update((inner, why) for inner in _between(body, entry, body.outputs[index]))
    return pins


def _between(body: ir.Graph, entry: ir.Value, exit_: ir.Value) -> Iterator[ir.Node]:
    """The element-wise arithmetic that makes `exit_` from `entry`; nothing if more does."""
    reached = {entry}
    for node in body:
        if _element_by_element(node) and not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    inside = reached - {entry}
    pending = [exit_] if exit_ in inside else []
    while pending:
        producer = pending.pop().producer()
        if producer is None or producer.graph is not body:
            continue
        if has_meaning(producer, Meaning.ELEMENTWISE):
            yield producer
        pending.extend(v for v in producer.inputs if v in inside)


def _element_by_element(node: ir.Node) -> bool:
    return has_meaning(node, Meaning.ELEMENTWISE) or has_meaning(node, Meaning.CARRIER)
