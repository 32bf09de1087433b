"""Why a node has the format that it has, and what its Casts cost on the target."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT32, Format, of
from onnxcast.graph.edit import cast_target, constant_of
from onnxcast.graph.shapes import Shapes, bytes_of
from onnxcast.graph.text import node_text
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, model_nodes, op_name
from onnxcast.planning import Decision, Form, Group, IllegalCast, Plan, Routes
from onnxcast.targets import Chains, Target

__all__ = ["Explanation", "NodeCast", "explain_node", "find_node"]


@dataclasses.dataclass(frozen=True)
class NodeCast:
    """A conversion that a node's formats ask for.

    Attributes:
        where: Which operand or result.
        cast: Formats before and after.
        how: The chain with its labels, or why the target cannot do it, or why it costs nothing.
        hops: Conversions of the target; 0 if it costs nothing.
        bytes: What they write; a dimension that is not known counts 1.
    """

    where: str
    cast: str
    how: str
    hops: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What is decided about one node.

    Attributes:
        node: Its name, or how messages call it.
        op: Its op.
        text: It in ONNX's text form.
        groups: A record per type group: format, form, reason and detail.
        casts: The conversions at its operands and results.
    """

    node: str
    op: str
    text: str
    groups: tuple[dict[str, str], ...]
    casts: tuple[NodeCast, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts, strings and numbers."""
        return dataclasses.asdict(self)


def find_node(model: ir.Model, name: str) -> ir.Node:
    """The node of that name, label or result, in any scope.

    Raises:
        InputError: There is none (the nearest are named), or there are several.
    """
    if not isinstance(name, str):
        raise InputError(f"node {name!r}: the name of a node or of one of its results is wanted")
    nodes = list(model_nodes(model))
    found = [node for node in nodes if name in (node.name, label(node))]
    found = found or [
        node for node in nodes if any(value.name == name for value in node.outputs if name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"node {name!r}: {len(found)} nodes are called so; name one of their results instead"
        )
    near = difflib.get_close_matches(name, dict.fromkeys(map(label, nodes)), n=3, cutoff=0.4)
    hint = f"; did you mean {', '.join(near)}?" if near else "; onnxcast inspect shows the ops"
    raise InputError(f"node {name!r}: no node or result of the model is called so{hint}")


def explain_node(
    model: ir.Model, node: ir.Node, plan: Plan, target: Target, *, exact_bridges: bool
) -> Explanation:
    """Explain the decisions of `plan` about `node`.

    Args:
        model: The model that the plan is for.
        node: One of its nodes.
        plan: The plan.
        target: What the Casts are costed for.
        exact_bridges: As for `Chains`.
    """
    decisions = {group: each for group, each in plan.decisions.items() if group.node is node}
    rows = plan.rows()
    groups = tuple(
        row for row, group in zip(rows, plan.decisions, strict=True) if group in decisions
    )
    if cast_target(node) is not None:
        casts = [_own_cast(model, node, target, exact_bridges)]
    else:
        narrow = {
            value: decision.format
            for group, decision in plan.narrow()
            if decision.gives
            for value in group.result_values()
        }
        coster = _Coster(target, exact_bridges, Shapes(model))
        casts = [
            each
            for group, decision in decisions.items()
            for each in coster.casts(group, decision, narrow)
        ]
    return Explanation(label(node), op_name(node), node_text(node), groups, tuple(casts))


def _own_cast(model: ir.Model, node: ir.Node, target: Target, exact_bridges: bool) -> NodeCast:
    """What the target makes of `node`, a Cast of the model."""
    types, to = ElementTypes(model, in_functions=True), cast_target(node)
    assert to is not None
    source = types.dtype(node.inputs[0])
    pair = f"{'an unknown type' if source is None else of(source)} to {of(to)}"
    shapes, operand = Shapes(model), node.inputs[0]
    if target.casts is None:
        count = 1 if operand is None else shapes.elements(operand)
        return NodeCast("this Cast", pair, "one Cast", 1, bytes_of(count, of(to).bits))
    route = Routes(target, types, shapes, exact_bridges=exact_bridges).of(node)
    if isinstance(route, IllegalCast):
        return NodeCast("this Cast", pair, f"not on {target.architecture}: {route.why}", 0, 0)
    return NodeCast("this Cast", pair, route.chain.described, route.chain.hops, route.bytes)


class _Coster:
    def __init__(self, target: Target, exact_bridges: bool, shapes: Shapes) -> None:
        self._target = target
        self._shapes = shapes
        self._chains = Chains(target, exact_bridges=exact_bridges)

    def casts(
        self, group: Group, decision: Decision, narrow: Mapping[ir.Value, Format]
    ) -> Iterator[NodeCast]:
        """The conversions that the decision on a group asks for."""
        if decision.form is Form.MARKED:
            return
        for index in group.operands:
            value = group.node.inputs[index]
            assert value is not None
            where = f"operand {index} ({value.name})"
            if index in decision.reads:
                yield from self._read(where, value, decision, index, narrow.get(value))
            elif value in narrow:
                yield self._cast(where, value, narrow[value], FLOAT32)
        for value in group.result_values() if decision.gives else ():
            if value.is_graph_output():
                yield self._cast(f"result ({value.name})", value, decision.format, FLOAT32)

    def _read(
        self, where: str, value: ir.Value, decision: Decision, index: int, given: Format | None
    ) -> Iterator[NodeCast]:
        format_ = decision.read_in(index)
        if given not in (None, format_):
            yield self._cast(where, value, given, FLOAT32)
            yield self._cast(where, value, FLOAT32, format_)
        elif given is not None:
            yield NodeCast(where, str(format_), "narrow already", 0, 0)
        elif constant_of(value) is not None:
            yield NodeCast(where, f"{FLOAT32} to {format_}", "a constant, stored narrow", 0, 0)
        else:
            yield self._cast(where, value, FLOAT32, format_)
        if decision.form is Form.STORAGE:
            yield self._cast(where, value, format_, FLOAT32)

    def _cast(self, where: str, value: ir.Value, source: Format, target: Format) -> NodeCast:
        pair = f"{source} to {target}"
        if self._target.casts is None:
            return NodeCast(
                where, pair, "one Cast", 1, bytes_of(self._shapes.elements(value), target.bits)
            )
        chain = self._chains.find(source, target)
        if chain is None:
            return NodeCast(where, pair, self._chains.why_not(source, target), 0, 0)
        cost = bytes_of(self._shapes.elements(value), chain.element_bits)
        return NodeCast(where, pair, chain.described, chain.hops, cost)
