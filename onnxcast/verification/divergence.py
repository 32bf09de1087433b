"""The first node at which a rounded model leaves its reference."""

from collections.abc import Iterable

import onnx_ir as ir

from onnxcast.graph.walk import label, op_name
from onnxcast.verification.layers import Layer

__all__ = ["first_diverging"]


def first_diverging(reference: ir.Model, layers: Iterable[Layer]) -> str:
    """Name the node of `reference` at which another model first differs by more than passes.

    That is the first in topological order that is non-finite where the reference is not; if there
    is none, the first whose error exceeds the tolerance while those of all its inputs do not.

    Args:
        reference: The source, or its twin.
        layers: The values that it has in common with the other, measured.

    Returns:
        Node, op and figures on one line; "" if no value of the main graph tells.
    """
    found = {layer.value: layer for layer in layers}
    later = ""
    for node in reference.graph:
        mine = [found[value.name] for value in node.outputs if value.name in found]
        broken = next((layer for layer in mine if layer.breaks), None)
        if broken is not None:
            return _told(node, broken)
        wrong = next((layer for layer in mine if layer.why), None)
        read = [found[value.name] for value in node.inputs if value and value.name in found]
        if wrong is not None and not later and not any(layer.why for layer in read):
            later = _told(node, wrong)
    return later


def _told(node: ir.Node, layer: Layer) -> str:
    return f"{label(node)} ({op_name(node)}): {layer.why}"
