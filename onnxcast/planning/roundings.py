"""Narrowing round trips that are the conversion's own, marked so that no later run drops them.

After::

    a = Cast <to = 17> (x)         # x is float32: an operand stored as float8e4m3fn
    b = Cast <to = 1> (a)          # node metadata: onnxcast.rounding = "planned"
"""

import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.edit import cast_target
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import model_nodes

__all__ = ["is_planned_rounding", "mark_roundings"]

ROUNDING = "onnxcast.rounding"
"""Key in the metadata_props of a Cast back from a narrower type."""


def is_planned_rounding(cast: ir.Node) -> bool:
    """Whether a conversion, this one or an earlier, put a Cast and the one before it there."""
    return ROUNDING in cast.metadata_props


def mark_roundings(model: ir.Model) -> bool:
    """Mark the second Cast of every narrowing round trip; return whether that changed anything."""
    seconds = [
        node for node in model_nodes(model) if _is_second(node) and not is_planned_rounding(node)
    ]
    if not seconds:
        return False
    types = ElementTypes(model)
    marked = [node for node in seconds if _rounds(node, types)]
    for node in marked:
        node.metadata_props[ROUNDING] = "planned"
    return bool(marked)


def _is_second(node: ir.Node) -> bool:
    """Whether `node` casts what a Cast gives."""
    value = None if cast_target(node) is None else node.inputs[0]
    first = None if value is None else value.producer()
    return first is not None and cast_target(first) is not None


def _rounds(node: ir.Node, types: ElementTypes) -> bool:
    """Whether `node` is the second Cast of a narrowing round trip."""
    target = cast_target(node)
    first = None if target is None or node.inputs[0] is None else node.inputs[0].producer()
    middle = None if first is None else cast_target(first)
    source = None if first is None or middle is None else types.dtype(first.inputs[0])
    if source is None or middle is None or target is None:
        return False
    return formats.is_round_trip(*map(formats.of, (source, middle, target)))
