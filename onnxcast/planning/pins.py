"""Pins: decisions made from data, written on their node so that later runs keep to them."""

import enum

import onnx_ir as ir

from onnxcast.graph.walk import model_graphs

__all__ = ["PinLevel", "forget_pins", "pin", "pin_level", "pin_of", "pinned", "unpin"]

PIN = "onnxcast.pin"
"""Key in a node's metadata_props; every reader accepts the field, whatever the IR version."""

_WEIGHTS_TOO = "; weights too"


class PinLevel(enum.Enum):
    """How much of a node a pin keeps float32."""

    NONE = "nothing"
    WEIGHTS = "all but the constants that a matmul-like op multiplies"
    WIDE = "everything"


def pin(node: ir.Node, figure: str, level: PinLevel = PinLevel.WEIGHTS) -> None:
    """Keep `node` float32 from now on, because of a measured figure."""
    assert level is not PinLevel.NONE
    suffix = _WEIGHTS_TOO if level is PinLevel.WIDE else ""
    node.metadata_props[PIN] = figure.removesuffix(_WEIGHTS_TOO) + suffix


def pin_of(text: str) -> tuple[str, PinLevel]:
    """The figure and the level of a pin as it is written on a node."""
    wide = text.endswith(_WEIGHTS_TOO)
    return text.removesuffix(_WEIGHTS_TOO), PinLevel.WIDE if wide else PinLevel.WEIGHTS


def pinned(node: ir.Node) -> str:
    """The figure that keeps `node` float32; "" if none does."""
    return node.metadata_props.get(PIN, "")


def pin_level(node: ir.Node) -> PinLevel:
    """How much of `node` its pin keeps float32."""
    figure = pinned(node)
    return pin_of(figure)[1] if figure else PinLevel.NONE


def unpin(node: ir.Node) -> None:
    """Take the pin off `node`."""
    del node.metadata_props[PIN]


def forget_pins(model: ir.Model) -> int:
    """Remove all pins; return how many there were."""
    nodes = [node for graph in model_graphs(model) for node in graph if pinned(node)]
    for node in nodes:
        unpin(node)
    return len(nodes)
