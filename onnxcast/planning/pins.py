"""Pins: decisions made from data, written on their node so that later runs keep to them."""

import enum

import onnx_ir as ir

from onnxcast.graph.walk import model_nodes

__all__ = [
    "PinLevel",
    "fall_back",
    "falls_back",
    "forget_pins",
    "pin",
    "pin_level",
    "pin_of",
    "pinned",
    "unpin",
]

PIN = "onnxcast.pin"
"""Key in a node's metadata_props; every reader accepts the field, whatever the IR version."""

FALLBACK = "onnxcast.fallback"
"""Key in a node's metadata_props: why it leaves the range of the narrow format."""

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


def fall_back(node: ir.Node, figure: str) -> bool:
    """Give `node` the fallback format from now on; return whether that is new."""
    known = falls_back(node)
    if not known:
        node.metadata_props[FALLBACK] = figure
    return not known


def falls_back(node: ir.Node) -> str:
    """The figure for which `node` gets the fallback format, if there is one; "" if none does."""
    return node.metadata_props.get(FALLBACK, "")


def forget_pins(model: ir.Model) -> int:
    """Remove all pins and fallbacks; return how many there were."""
    found = 0
    for node in model_nodes(model):
        for key in (PIN, FALLBACK):
            found += node.metadata_props.pop(key, None) is not None
    return found
