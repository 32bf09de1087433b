"""What groups get beside their neighbours: islands first, then the carriers, one format at a time.

Where nodes that leave the range of the narrow format fall back to another, there are two layers.
To each the other's groups are wide, as a value goes from one to the other by way of float32; the
second moves what the first leaves wide.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import onnx_ir as ir

from onnxcast.planning.borders import Borders
from onnxcast.planning.bound import Bound
from onnxcast.planning.groups import Group
from onnxcast.planning.pins import falls_back
from onnxcast.planning.plan import Decision, Form
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Scope

__all__ = ["Layer", "find_fallbacks", "settle"]

_RANGE = (Reason.OUT_OF_RANGE, Reason.VANISHING)

_NARROWED = (Reason.REQUESTED, Reason.MATMUL_OPERANDS, Reason.STORAGE)


class Layer(NamedTuple):
    """What there would be of one format.

    Attributes:
        borders: Prices its Casts.
        decided: What each group gets if it has that format; None for a carrier, which its
            neighbours decide.
    """

    borders: Borders
    decided: Mapping[Group, Decision | None]


def find_fallbacks(decided: Mapping[Group, Decision | None]) -> dict[ir.Node, str]:
    """The nodes that leave a format's range, with the figure: by a run before, or a constant."""
    found: dict[ir.Node, str] = {}
    for group, decision in decided.items():
        node, measured = group.node, falls_back(group.node)
        if measured:
            found[node] = measured
        elif decision is not None and decision.reason in _RANGE:
            found.setdefault(node, decision.detail)
    return found


def settle(
    layers: Sequence[Layer],
    scope: Scope,
    chosen: Collection[ir.Node],
    fallbacks: Mapping[ir.Node, str],
) -> tuple[dict[Group, Decision], Bound | None]:
    """Decide for all groups of a model.

    Args:
        layers: The format asked for, and that of the nodes that fall back, if there is one.
        scope: What may be narrowed.
        chosen: Nodes of which the user says what they get.
        fallbacks: The nodes that get the last format, with the figure.

    Returns:
        The decisions, in the order of the groups, and what the Casts of the first format cost at
        least.
    """
    first, last = layers[0].decided, layers[-1].decided
    mixed = first
    if fallbacks:
        mixed = {group: (last if group.node in fallbacks else first)[group] for group in first}
    computing = {group: each for group, each in mixed.items() if each is not None}
    carriers = [
        _carriers(layer, mixed, fallbacks if layer is layers[0] else ()) for layer in layers
    ]
    for layer, moving in zip(layers, carriers, strict=True):
        if scope is Scope.ALL:
            free = [
                group
                for group, each in computing.items()
                if each is layer.decided[group] and _is_optional(each) and group.node not in chosen
            ]
            computing.update(layer.borders.islands(free, moving, computing))
    moved: dict[Group, Decision] = {}
    bounds = []
    for layer, moving in zip(layers, carriers, strict=True):
        left = [group for group in moving if group not in moved or moved[group].is_wide]
        found, bound = layer.borders.carriers(left, computing)
        moved.update((group, each) for group, each in found.items() if group not in moved)
        moved.update((group, each) for group, each in found.items() if not each.is_wide)
        bounds.append(bound)
    if fallbacks:
        computing = {
            group: _told(each, fallbacks.get(group.node)) for group, each in computing.items()
        }
    return {group: moved.get(group) or computing[group] for group in first}, bounds[0]


def _carriers(
    layer: Layer, mixed: Mapping[Group, Decision | None], others: Collection[ir.Node]
) -> list[Group]:
    """The carriers that may have the format of `layer`; nodes that are `others` may not."""
    return [
        group
        for group, each in mixed.items()
        if each is None and layer.decided[group] is None and group.node not in others
    ]


def _is_optional(decision: Decision) -> bool:
    """Whether a group is narrow for the sake of what it moves, and might as well be wide."""
    return decision.reason is Reason.REQUESTED and decision.form is Form.NATIVE


def _told(decision: Decision, figure: str | None) -> Decision:
    """`decision`, with the figure for which it is about the fallback format."""
    if figure is None or decision.reason not in _NARROWED:
        return decision
    return dataclasses.replace(decision, reason=Reason.FALLBACK, detail=figure)
