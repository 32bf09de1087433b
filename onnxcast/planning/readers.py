"""How many operands and outputs read each value, counted once for all who ask."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import onnx_ir as ir

from onnxcast.planning.cones import Meanings
from onnxcast.policy import Meaning

__all__ = ["Readers", "count_readers"]


class Readers(NamedTuple):
    """Who reads the values of a model.

    Attributes:
        counts: How many operands and outputs of graphs each value is; none where only its shape is
            looked at.
        of_shapes: The nodes that look at the shape of what they read, and at nothing else.
    """

    counts: Mapping[ir.Value, int]
    of_shapes: Collection[ir.Node]


def count_readers(graphs: Iterable[ir.Graph], nodes: Iterable[tuple[ir.Node, Meanings]]) -> Readers:
    """Count in all scopes; `nodes` are those of `graphs`, each with what it means."""
    counts: dict[ir.Value | None, int] = {}
    of_shapes = set()
    for node, held in nodes:
        if Meaning.METADATA in held:
            of_shapes.add(node)
            continue
        for value in node.inputs:
            counts[value] = counts.get(value, 0) + 1
    for graph in graphs:
        for value in graph.outputs:
            counts[value] = counts.get(value, 0) + 1
    counts.pop(None, None)  # what is left out
    return Readers(counts, of_shapes)  # type: ignore[arg-type] # None is out
