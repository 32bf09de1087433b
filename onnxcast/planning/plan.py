"""The plan: for each type group the format it gets, and why. Made before anything is changed."""

import dataclasses
import difflib
import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT32, Format
from onnxcast.graph.edit import cast_target
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, main_graphs, model_graphs, op_name
from onnxcast.planning.carriers import narrow_carriers
from onnxcast.planning.cones import Pins, integer_pins, statistics_pins
from onnxcast.planning.constants import constant_pins
from onnxcast.planning.groups import Group, Kind, find_groups
from onnxcast.planning.guards import guard_pins
from onnxcast.planning.legality import ALLOWED_FROM, Legality
from onnxcast.planning.loops import carried_pins
from onnxcast.planning.pins import pinned
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Functions, Meaning, Policy, Scope, has_meaning
from onnxcast.targets import Target

__all__ = ["Decision", "Plan", "make_plan"]


_PINNED = {
    Meaning.ACCUMULATING: Reason.ACCUMULATING,
    Meaning.AMPLIFYING: Reason.AMPLIFYING,
    Meaning.JUMPING: Reason.JUMPING,
    Meaning.QUANTISING: Reason.QUANTISED,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What one group gets.

    Attributes:
        format: The element type of its operands and results.
        reason: The one cause.
        detail: Names or figures that belong to the cause, or "".
    """

    format: Format
    reason: Reason
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Decisions for all float32 groups of a model, in topological order.

    Attributes:
        decisions: One per group.
        types: Element types of the model that the plan is for.
        labels: What nodes without a name are called, as long as the model is unchanged.
    """

    decisions: Mapping[Group, Decision]
    types: ElementTypes
    labels: Mapping[ir.Node, str]

    def narrow(self) -> Iterator[tuple[Group, Format]]:
        """The groups that change, with the format they get."""
        for group, decision in self.decisions.items():
            if decision.format != FLOAT32:
                yield group, decision.format

    def held_back(self) -> dict[tuple[str, int], int]:
        """How many matmul-like nodes of an op stay wide for want of a later opset, and which.

        Returns:
            Counts by op and the first opset that allows the format.
        """
        counts: Counter[tuple[str, int]] = Counter()
        for group, decision in self.decisions.items():
            _, known, opset = decision.detail.partition(ALLOWED_FROM)
            schema = decision.reason is Reason.SCHEMA
            if schema and known and has_meaning(group.node, Meaning.MATMUL):
                counts[op_name(group.node), int(opset)] += 1
        return dict(counts)

    def rows(self) -> list[dict[str, str]]:
        """The plan as plain records, one per group, for people and reports."""
        return [
            {
                "node": group.node.name or self.labels[group.node],
                "op": op_name(group.node),
                "variable": group.variable,
                "format": decision.format.name,
                "reason": decision.reason.name,
                "because": decision.reason.value,
                "detail": decision.detail,
            }
            for group, decision in self.decisions.items()
        ]


def make_plan(model: ir.Model, policy: Policy, target: Target) -> Plan:
    """Decide for each float32 group of `model` which format it gets.

    Args:
        model: Normalised or not; it is not changed.
        policy: Scope, format and what to keep.
        target: Tells the operand types of matmul-like ops.

    Raises:
        InputError: A keep pattern that matches nothing (with the nearest names).
    """
    specialised = policy.functions is Functions.SPECIALISE
    types = ElementTypes(model, in_functions=specialised)
    graphs = list(model_graphs(model) if specialised else main_graphs(model))
    nodes = [node for graph in graphs for node in graph]
    _check_patterns(nodes, policy)
    groups = find_groups(graphs, types)
    if policy.format is None:
        scope = Decision(FLOAT32, Reason.SCOPE)
        decisions = dict.fromkeys(groups, scope)
    else:
        decisions = _Planner(nodes, policy, target, types).decide(groups)
    labels = {group.node: label(group.node) for group in groups if not group.node.name}
    return Plan(decisions, types, labels)


class _Planner:
    def __init__(
        self, nodes: list[ir.Node], policy: Policy, target: Target, types: ElementTypes
    ) -> None:
        assert policy.format is not None
        self._policy = policy
        self._target = target
        self._types = types
        self._narrow = policy.format
        self._legality = Legality(types)
        self._nodes = nodes
        self._pins: Pins = {}

    def decide(self, groups: list[Group]) -> dict[Group, Decision]:
        """Decisions of all groups: pinned ones first, then computing ones, then carriers."""
        self._pins = self._pins_of(groups)
        decisions: dict[Group, Decision] = {}
        carriers: list[Group] = []
        computing: list[Group] = []
        for group in groups:
            wide = self._why_wide(group)
            if wide is not None:
                decisions[group] = Decision(FLOAT32, *wide)
            elif _is_carrier(group.node):
                carriers.append(group)
            else:
                decisions[group] = self._narrowed(group)
                if decisions[group].format == self._narrow:
                    computing.append(group)
        behind, ahead = narrow_carriers(carriers, computing, self._narrow)
        for group in carriers:
            if group in behind:
                decisions[group] = Decision(self._narrow, Reason.CARRIES_NARROW)
            elif group in ahead:
                decisions[group] = Decision(self._narrow, Reason.FEEDS_NARROW)
            else:
                reason = Reason.CARRIES_WIDE if group.results else Reason.METADATA
                decisions[group] = Decision(FLOAT32, reason)
        return {group: decisions[group] for group in groups}

    def _pins_of(self, groups: list[Group]) -> Pins:
        statistics: Pins = {}
        if self._policy.scope is Scope.ALL:
            statistics = {
                **carried_pins(self._nodes),
                **statistics_pins(self._nodes, self._types),
            }
        return {
            **guard_pins(groups, self._narrow),
            **statistics,
            **integer_pins(self._nodes, self._types, self._narrow),
            **constant_pins(groups, self._types, self._narrow),
        }

    def _why_wide(self, group: Group) -> tuple[Reason, str] | None:
        """The first cause that keeps `group` float32; None if it may be narrow."""
        return (
            self._why_fixed(group)
            or self._why_kept(group.node)
            or self._legality.why_not(group, self._narrow)
            or self._why_meant(group)
        )

    def _why_kept(self, node: ir.Node) -> tuple[Reason, str] | None:
        """What the user said that keeps `node` float32."""
        if self._policy.keeps_op(op_name(node)):
            return Reason.KEEP_OP, op_name(node)
        if self._policy.keeps_node(node.name):
            return Reason.KEEP_NODE, node.name or ""
        if pinned(node):
            return Reason.PINNED, pinned(node)
        narrowable = self._policy.scope is Scope.ALL or has_meaning(node, Meaning.MATMUL)
        return None if narrowable or _is_carrier(node) else (Reason.SCOPE, "")

    def _why_meant(self, group: Group) -> tuple[Reason, str] | None:
        """What the op means, or its constants are, that keeps `group` float32."""
        node = group.node
        for meaning, reason in _PINNED.items():
            if has_meaning(node, meaning):
                return reason, ""
        if not (group.results or _is_carrier(node) or has_meaning(node, Meaning.MATMUL)):
            return Reason.PARAMETER, ""
        if node in self._pins:
            return self._pins[node]
        return (Reason.QUANTISED, "") if _reads_quantised(node) else None

    def _why_fixed(self, group: Group) -> tuple[Reason, str] | None:
        """What keeps `group` float32 whatever is asked for."""
        kinds = {
            Kind.CALL: Reason.CALL,
            Kind.CONTROL_FLOW: Reason.CONTROL_FLOW,
            Kind.OPAQUE: Reason.OPAQUE,
        }
        if group.kind in kinds:
            return kinds[group.kind], ""
        if not group.tensors:
            return Reason.NOT_A_TENSOR, ""
        if cast_target(group.node) is not None or group.node.op_type == "CastLike":
            return Reason.USER_CAST, ""
        return None if group.operands else (Reason.TYPED_BY_ATTRIBUTE, "")

    def _narrowed(self, group: Group) -> Decision:
        if not has_meaning(group.node, Meaning.MATMUL):
            return Decision(self._narrow, Reason.REQUESTED)
        # Only the two multiplied operands are the target's concern; a bias shares their type.
        asked = [
            self._target.matmul_operand_type(FLOAT32, self._narrow)
            for index in group.operands
            if index < 2
        ]
        first = asked[0] if asked else self._narrow
        pair = self._target.matmul_operand_pair(first, asked[-1] if asked else first)
        if pair[0] != pair[1] or pair[0] == FLOAT32:
            return Decision(FLOAT32, Reason.TARGET_OPERANDS, " and ".join(f.name for f in pair))
        illegal = pair[0] != self._narrow and self._legality.why_not(group, pair[0])
        if illegal:
            return Decision(FLOAT32, *illegal)
        return Decision(pair[0], Reason.MATMUL_OPERANDS, self._target.name)


def _is_carrier(node: ir.Node) -> bool:
    """Whether `node` takes whatever format its operand has: moves it, or reads its shape."""
    return has_meaning(node, Meaning.CARRIER) or has_meaning(node, Meaning.METADATA)


def _reads_quantised(node: ir.Node) -> bool:
    """Whether an operand comes straight from a dequantiser, which belongs to its operator."""
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None and has_meaning(producer, Meaning.QUANTISING):
            return True
    return False


def _check_patterns(nodes: list[ir.Node], policy: Policy) -> None:
    _check("op", policy.keep_ops, {op_name(node) for node in nodes})
    _check("node", policy.keep_nodes, {node.name for node in nodes if node.name})


def _check(kind: str, patterns: Iterable[str], names: set[str]) -> None:
    for pattern in sorted(patterns):
        if pattern in names or any(fnmatch.fnmatchcase(name, pattern) for name in names):
            continue
        near = difflib.get_close_matches(pattern, sorted(names), n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise InputError(f"no {kind} of the model matches {pattern!r} to be kept wide{hint}")
