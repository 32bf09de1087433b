"""Pins: decisions made from data, written on their node so that later runs keep to them."""

import onnx_ir as ir

from onnxcast.graph.walk import model_graphs

__all__ = ["forget_pins", "pin", "pinned", "unpin"]

PIN = "onnxcast.pin"
"""Key in a node's metadata_props; every reader accepts the field, whatever the IR version."""


def pin(node: ir.Node, figure: str) -> None:
    """Keep `node` float32 from now on, because of a measured figure."""
    node.metadata_props[PIN] = figure


def pinned(node: ir.Node) -> str:
    """The figure that keeps `node` float32; "" if none does."""
    return node.metadata_props.get(PIN, "")


def unpin(node: ir.Node) -> None:
    """Take the pin off `node`."""
    del node.metadata_props[PIN]


def forget_pins(model: ir.Model) -> int:
    """Remove all pins; return how many there were."""
    nodes = [node for graph in model_graphs(model) for node in graph if pinned(node)]
    for node in nodes:
        unpin(node)
    return len(nodes)
