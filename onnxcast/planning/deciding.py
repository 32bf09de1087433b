"""What each group gets by itself: by its schema, its meaning, its constants and what was asked."""

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxcast.graph.edit import cast_target, constant_of
from onnxcast.graph.types import ElementTypes
from onnxcast.planning.cones import Meanings, Pins, integer_pins, statistics_pins
from onnxcast.planning.constants import constant_pins
from onnxcast.planning.groups import Group, Kind
from onnxcast.planning.guards import guard_pins
from onnxcast.planning.legality import Legality, Why
from onnxcast.planning.loops import carried_pins
from onnxcast.planning.multiplying import Multiplying
from onnxcast.planning.pins import PinLevel, pin_level, pinned
from onnxcast.planning.plan import Decision, Form, wide
from onnxcast.planning.reasons import Reason
from onnxcast.planning.storage import fills_type, limits_to
from onnxcast.policy import (
    Choice,
    MatmulOutput,
    Meaning,
    Policy,
    Scope,
    has_meaning,
    means_by_op,
    multiplied,
)
from onnxcast.targets import Target

__all__ = ["Decider"]

_PINNED = {
    Meaning.ACCUMULATING: Reason.ACCUMULATING,
    Meaning.AMPLIFYING: Reason.AMPLIFYING,
    Meaning.JUMPING: Reason.JUMPING,
    Meaning.QUANTISING: Reason.QUANTISED,
}

_FIXED = {
    Kind.CALL: Reason.CALL,
    Kind.CONTROL_FLOW: Reason.CONTROL_FLOW,
    Kind.OPAQUE: Reason.OPAQUE,
}

_KEPT = {"op": Reason.KEEP_OP, "node": Reason.KEEP_NODE, "policy": Reason.KEEP_POLICY}


class Decider:
    """Decides for the groups of one model and one format, each by itself.

    Args:
        model: It is not changed.
        nodes: Those of all scopes, each with what it means.
        policy: What is asked for; it has a format.
        target: Tells the operand types of matmul-like ops.
        types: Element types of all values.
    """

    def __init__(
        self,
        model: ir.Model,
        nodes: Sequence[tuple[ir.Node, Meanings]],
        policy: Policy,
        target: Target,
        types: ElementTypes,
    ) -> None:
        assert policy.format is not None
        narrow = target.realised(policy.format)
        self._policy = policy
        self._types = types
        self._narrow = narrow
        self._legality = Legality(types)
        self._multiplying = Multiplying(policy, target, narrow, self._legality)
        self._nodes = nodes
        self._inputs = {v for v in model.graph.inputs if not v.is_initializer()}
        self._forms: dict[object, tuple[Form, Why | None]] = {}
        self._usual: dict[object, Decision | None] = {}
        self._by_values: dict[object, bool] = {}
        self._analysed: Pins = {}
        self._constants: Pins = {}
        self._quantised = {
            value for node, held in nodes if Meaning.QUANTISING in held for value in node.outputs
        }

    def decide(
        self, groups: list[Group], choices: Mapping[ir.Node, Choice]
    ) -> dict[Group, Decision | None]:
        """What each group gets; None for a carrier that may be narrow."""
        self._constants = constant_pins(groups, self._types, self._narrow)
        self._analysed = self._pins_of(groups)
        return {group: self._decision(group, choices.get(group.node)) for group in groups}

    def _pins_of(self, groups: list[Group]) -> Pins:
        """Pins found by looking at more than one node."""
        statistics: Pins = {}
        if self._policy.scope is not Scope.MATMULT:
            statistics = {
                **carried_pins(node for node, _ in self._nodes),
                **statistics_pins(self._nodes, self._types),
            }
        return {
            **guard_pins(groups, self._narrow),
            **statistics,
            **integer_pins(self._nodes, self._types, self._narrow),
        }

    def _decision(self, group: Group, choice: Choice | None) -> Decision | None:
        """What `group` gets; None for a carrier that may be narrow, which its neighbours decide."""
        alike = group.alike
        if alike is None or choice is not None or self._is_special(group):
            return self._found(group, choice)
        if alike not in self._usual:
            self._usual[alike] = self._found(group, choice)
        return self._usual[alike]

    def _is_special(self, group: Group) -> bool:
        """Whether `group` may get another decision than all that are alike."""
        node, alike = group.node, group.alike
        if node.metadata_props or node in self._analysed or node in self._constants:
            return True
        if alike not in self._by_values:
            self._by_values[alike] = not means_by_op(node) or has_meaning(node, Meaning.LIMITING)
        if self._by_values[alike]:
            return True
        return bool(self._quantised) and not self._quantised.isdisjoint(node.inputs)

    def _found(self, group: Group, choice: Choice | None) -> Decision | None:
        forced = choice is not None and choice.wish == "narrow"
        pin = PinLevel.NONE if forced else pin_level(group.node)
        form, refusal = self._form(group)
        meant = self._why_meant(group, forced=forced)
        if refusal is not None and meant is not None:
            refusal = refusal._replace(opset=None)  # a later one would not narrow it either
        why = (
            self._why_fixed(group)
            or self._why_kept(group, choice)
            or _why_pinned(group.node, pin)
            or (refusal if form is Form.WIDE else None)
            or meant
        )
        if why is not None:
            return wide(*why)
        if _is_carrier(group):
            return None
        if pin is PinLevel.WEIGHTS:
            return self._weights_only(group)
        if has_meaning(group.node, Meaning.MATMUL):
            return self._multiplying.decide(group, form, refusal)
        if form is Form.STORAGE:
            return Decision(self._narrow, Reason.STORAGE, "", form, group.operands)
        detail = "" if choice is None else f"{choice.by} {choice.detail}"
        return Decision(self._narrow, Reason.REQUESTED, detail, form, group.operands, gives=True)

    def _form(self, group: Group) -> tuple[Form, Why | None]:
        """How `group` could use the format, and what refuses its native form."""
        if group.alike is None:
            return self._found_form(group)
        if group.alike not in self._forms:
            self._forms[group.alike] = self._found_form(group)
        return self._forms[group.alike]

    def _found_form(self, group: Group) -> tuple[Form, Why | None]:
        if group.kind not in (Kind.SCHEMA, Kind.TIED):
            return Form.WIDE, None
        if self._policy.is_float32r and group.kind is Kind.TIED:
            return Form.WIDE, Why(Reason.CONTROL_FLOW)
        if self._policy.is_float32r:
            never = self._legality.why_never(group)
            return (Form.MARKED, None) if never is None else (Form.WIDE, never)
        carrier, matmul = _is_carrier(group), has_meaning(group.node, Meaning.MATMUL)
        by_storage = self._policy.scope is Scope.INPUTS or (
            not carrier
            and (
                self._narrow.bits < 16
                or (matmul and self._policy.matmul_output is MatmulOutput.WIDE)
            )
        )
        refusal = None if by_storage else self._legality.why_not(group, self._narrow)
        if not by_storage and refusal is None:
            return Form.NATIVE, None
        impossible = self._legality.why_never(group) if by_storage else None
        # A weight is worth storing narrow although the op cannot run so; other values are not.
        impossible = impossible or self._legality.why_no_cast(group.node, self._narrow)
        if impossible is None and (by_storage or matmul):
            return Form.STORAGE, refusal
        return Form.WIDE, impossible or refusal

    def _weights_only(self, group: Group) -> Decision:
        """What a pinned matmul-like group gets: its constants are stored narrow all the same."""
        weights = tuple(
            index
            for index in group.operands
            if index < multiplied(group.node) and self._is_weight(group.node.inputs[index])
        )
        detail = pinned(group.node)
        stored = self._multiplying.stored(weights)
        if not stored or self._policy.is_float32r:
            return wide(Reason.PINNED, detail)
        return Decision.rounding(next(iter(stored.values())), stored, Reason.WEIGHTS, detail)

    def _is_weight(self, value: ir.Value | None) -> bool:
        """Whether `value` is a float32 constant, or nothing but such constants, moved."""
        pending, seen = [value], set[ir.Value]()
        while pending:
            each = pending.pop()
            if each is None or each in seen or self._types.dtype(each) != ir.DataType.FLOAT:
                continue
            seen.add(each)
            producer = each.producer()
            if constant_of(each) is not None:
                continue
            if producer is None or not has_meaning(producer, Meaning.CARRIER):
                return False
            pending.extend(producer.inputs)
        return bool(seen)

    def at_inputs(self, group: Group, decision: Decision) -> Decision:
        """The same decision for the operands of `group` that are graph inputs, and no others."""
        if decision.is_wide:
            return decision
        reads = tuple(i for i in decision.reads if group.node.inputs[i] in self._inputs)
        if not reads:
            return wide(Reason.SCOPE)
        form = Form.MARKED if self._policy.is_float32r else Form.STORAGE
        return Decision(decision.format, Reason.INPUT, "", form, reads, apart=decision.apart)

    def _why_fixed(self, group: Group) -> Why | None:
        """What keeps `group` float32 whatever is asked for."""
        if group.kind is not Kind.SCHEMA and group.kind in _FIXED:
            return Why(_FIXED[group.kind])
        if not group.tensors:
            return Why(Reason.NOT_A_TENSOR)
        if cast_target(group.node) is not None or group.node.op_type == "CastLike":
            return Why(Reason.USER_CAST)
        if limits_to(group.node, self._narrow) and not fills_type(self._narrow):
            return Why(Reason.LIMIT)
        has_operands = group.operands or group.exits
        return None if has_operands else Why(Reason.TYPED_BY_ATTRIBUTE)

    def _why_kept(self, group: Group, choice: Choice | None) -> Why | None:
        """What the user said that keeps `group` float32."""
        if choice is not None:
            return None if choice.wish == "narrow" else Why(_KEPT[choice.by], choice.detail)
        outside = self._policy.scope is Scope.MATMULT and not has_meaning(
            group.node, Meaning.MATMUL
        )
        return Why(Reason.SCOPE) if outside and not _is_carrier(group) else None

    def _why_meant(self, group: Group, *, forced: bool) -> Why | None:
        """What the op means, or its constants are, that keeps `group` float32.

        Args:
            group: Any.
            forced: Whether the user asks to narrow it whatever it means.
        """
        node = group.node
        if not forced:
            for meaning, reason in _PINNED.items():
                if has_meaning(node, meaning):
                    return Why(reason)
        if not (group.results or _is_carrier(group) or has_meaning(node, Meaning.MATMUL)):
            return Why(Reason.PARAMETER)
        if node in self._constants:
            return Why(*self._constants[node])
        if forced:
            return None
        if node in self._analysed:
            return Why(*self._analysed[node])
        # What comes straight from a dequantiser belongs to its operator.
        return None if self._quantised.isdisjoint(node.inputs) else Why(Reason.QUANTISED)


def _why_pinned(node: ir.Node, pin: PinLevel) -> Why | None:
    """What measured figures say that keeps all of `node` float32."""
    whole = pin is PinLevel.WIDE or not has_meaning(node, Meaning.MATMUL)
    return Why(Reason.PINNED, pinned(node)) if pin is not PinLevel.NONE and whole else None


def _is_carrier(group: Group) -> bool:
    """Whether `group` takes whatever format its operand has: moves it, or reads its shape."""
    moves = has_meaning(group.node, Meaning.CARRIER) or group.kind is Kind.TIED
    return moves or has_meaning(group.node, Meaning.METADATA)
