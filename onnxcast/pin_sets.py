"""Pins that need no search."""

from collections.abc import Callable, Collection

import onnx_ir as ir

from onnxcast.graph.walk import upstream
from onnxcast.planning import PinLevel, Plan
from onnxcast.search import Pins

__all__ = ["all_narrow", "before_unequal"]


def all_narrow(
    plan: Plan, spared: Callable[[ir.Node], bool], level: PinLevel = PinLevel.WEIGHTS
) -> Pins:
    """Pins for all that `plan` narrows, but for nodes that are spared."""
    figure = "pinned with all others, as fewer did not do"
    nodes = dict.fromkeys(group.node for group, _ in plan.narrow())
    return {node: (figure, level) for node in nodes if not spared(node)}


def before_unequal(
    model: ir.Model, plan: Plan, unequal: Collection[str], spared: Callable[[ir.Node], bool]
) -> Pins:
    """Pins for what `plan` narrows of all that `unequal` outputs are computed from.

    Args:
        model: The model.
        plan: Its plan.
        unequal: Outputs of whole numbers that came out unequal.
        spared: Whether a node must not be pinned.
    """
    narrow = dict.fromkeys(group.node for group, _ in plan.narrow()) if unequal else {}
    found: dict[ir.Node, tuple[str, PinLevel]] = {}
    for output in model.graph.outputs:
        if output.name in unequal:
            figure, before = f"{output.name} is computed from it, and differs", upstream(output)
            for node in narrow:
                if node in before and not spared(node):
                    found.setdefault(node, (figure, PinLevel.WIDE))
    return found
