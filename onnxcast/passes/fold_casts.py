"""Fold Casts that lose nothing: identities, repeats, and pairs whose first Cast is exact.

Before::

    a = Cast <to = 1> (x)          # x is float16
    b = Cast <to = 10> (a)
    p = Relu (b)
    c = Cast <to = 16> (a)
    d = Cast <to = 16> (x)
    q = Max (c, d)
    t = Transpose (a)
    u = Cast <to = 10> (t)
    r = Relu (u)

After::

    p = Relu (x)
    c = Cast <to = 16> (x)
    q = Max (c, c)
    t = Transpose (x)
    r = Relu (t)

For A to B to C, with every value of A a value of B: one Cast from A to C; none if C is A and the
second Cast is the identity on A. A narrowing round trip is never removed but on request. A middle
value that others read, or that is a graph output, stays; only the second Cast is rewired and keeps
its ``saturate`` and ``round_mode``. A Cast moves past data movement, Neg and Abs where that leaves
fewer Casts. Bit-exact. Seed: SKaiNET #1494.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.formats import BOOL, Format, folds, is_identity, is_round_trip, losses
from onnxcast.graph.edit import bypass, cast_target, casts_among, take_place
from onnxcast.graph.findings import finding_about
from onnxcast.graph.repeats import repeated_casts
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, model_nodes
from onnxcast.planning import CastMoves, is_planned_rounding, mark_roundings
from onnxcast.policy import CastFolding

if TYPE_CHECKING:
    from onnxscript.rewriter.pattern import RewriteRule

__all__ = ["FoldCastsPass"]

IsNative: TypeAlias = Callable[[Format, Format], bool]

_Rewrite: TypeAlias = Callable[[Any, ir.Value, ir.Value], ir.Value]


class FoldCastsPass(ir.passes.InPlacePass):
    """Removes identity Casts, repeated Casts and exact halves of Cast pairs.

    Args:
        is_native: Whether the target has a conversion; by default it has all. No Cast is made that
            it lacks, but to and from bool, which become other ops.
        folding: Whether narrowing round trips are removed as well, which changes values.
        keeps: Whether a node has to stay in its format; others may run in a narrower one if no bit
            of their results depends on that. Pinned ones stay in any case.
        marks: Whether the narrowing round trips that are left get a mark, which keeps them.

    Attributes:
        types: Of the model that it is called with, if they are known; for one call.
        findings: One per fold of the last call, naming pair and values.
    """

    types: ElementTypes | None = None

    def __init__(
        self,
        is_native: IsNative = lambda _source, _target: True,
        folding: CastFolding = CastFolding.EXACT,
        keeps: Callable[[ir.Node], bool] = lambda _node: False,
        *,
        marks: bool = False,
    ) -> None:
        self._is_native = is_native
        self._folding = folding
        self._keeps = keeps
        self._marks = marks
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold in every scope of `model`, until nothing is left to fold."""
        self.findings = []
        types, self.types = self.types, None
        while self._round(model, types):
            types = None
        marked = self._marks and mark_roundings(model)
        return ir.passes.PassResult(model, bool(self.findings) or marked)

    def _round(self, model: ir.Model, types: ElementTypes | None) -> bool:
        """Fold and merge; where that changes nothing, move. Return whether anything changed."""
        casts = casts_among(model_nodes(model))
        if not casts:
            return False
        folder = _Folder(types or ElementTypes(model), self._is_native, self._folding)
        if any(map(folder.may_apply, casts)):
            # As they are then: what a rule makes of a Cast is looked at before what reads it.
            for node in model_nodes(model):
                if node.op_type == "Cast" and folder.may_apply(node):
                    _apply_first(folder.rules, model, node)
            folder.clean_up()
        # After a fold there are others.
        folder.merge(model, None if folder.findings else casts)
        found = folder.findings or self._move(model, folder, casts)
        self.findings.extend(found)
        return bool(found)

    def _move(
        self, model: ir.Model, folder: "_Folder", casts: Sequence[ir.Node]
    ) -> list[Diagnostic]:
        moves = CastMoves(folder.types, folder.folds_from, self._keeps)
        found = moves.find(model, casts)
        if found:
            moves.make(model, found)
        return [
            finding_about(
                group.node,
                Code.CAST_MOVED,
                f"{label(group.node)} runs in {move.source}, which its operands come from, "
                f"not {move.middle}",
            )
            for move in found
            for group in move.groups
        ]


def _apply_first(rules: "Sequence[RewriteRule]", model: ir.Model, node: ir.Node) -> None:
    """Rewrite `node` by the first rule that matches; the new node keeps its name and metadata.

    RewriteRuleSet would rename every unnamed node of the model as well, and values whose names
    repeat in sibling scopes.
    """
    assert node.graph is not None
    for rule in rules:
        change = rule.try_rewrite(model, node.graph, node)
        if change is None:
            continue
        (new,) = change.new_nodes
        new.name = node.name
        take_place(node, [new])
        return


class _Folder:
    """The rules, sharing the element types of the model and the list of findings."""

    def __init__(self, types: ElementTypes, is_native: IsNative, folding: CastFolding) -> None:
        self.types = types
        self._is_native = is_native
        self._folding = folding
        self._identities: list[ir.Value] = []
        self._first_casts: list[ir.Node] = []
        self.findings: list[Diagnostic] = []

    @cached_property
    def rules(self) -> "list[RewriteRule]":
        """Identity first: what it leaves may be a pair that folds."""
        # Most models have no Casts that fold, and this takes a tenth of the time of a small one.
        from onnxscript.rewriter.pattern import MatchResult, RewriteRule

        def rule(rewrite: _Rewrite, why_not: Callable[[ir.Value, ir.Value], str]) -> RewriteRule:
            def check(context: object, x: ir.Value, cast: ir.Value) -> MatchResult:
                del context
                why = why_not(x, cast)
                return MatchResult().fail(why, cast) if why else MatchResult()

            return RewriteRule(_any_cast, rewrite, check)

        rules = [
            rule(self._bypass, self._why_no_identity),
            rule(self._join, self._why_no_pair),
        ]
        if self._folding is CastFolding.DROP_NARROWING:
            rules.append(rule(self._drop, self._why_no_round_trip))
        return rules

    def may_apply(self, node: ir.Node) -> bool:
        """Whether a rule may apply to `node`: to match the rules takes seven times as long."""
        value = node.inputs[0] if cast_target(node) is not None else None
        first = None if value is None else value.producer()
        if first is not None and cast_target(first) is not None:
            return True
        return value is not None and self._format(value) == self._format(node.outputs[0])

    def clean_up(self) -> None:
        """Let readers of identities read their source, and drop first Casts nobody reads."""
        for value in self._identities:
            node = value.producer()
            assert node is not None
            assert node.inputs[0] is not None
            bypass(value, node.inputs[0])
        for node in self._first_casts:
            output = node.outputs[0]
            if node.graph is not None and not (output.uses() or output.is_graph_output()):
                node.graph.remove(node, safe=True)

    def merge(self, model: ir.Model, casts: Sequence[ir.Node] | None) -> None:
        """Let readers of repeated Casts read the first; a graph output may become an Identity.

        Args:
            model: The model.
            casts: All its Casts, if they are known.
        """
        for value, first in repeated_casts(model, casts).items():
            node = value.producer()
            assert node is not None
            source = self._format(node.inputs[0]) or "unknown"
            self._note(Code.CAST_MERGED, f"{source} to {self._format(value)} again", first, value)
            if not bypass(value, first):
                take_place(node, [ir.node("Identity", [first], name=node.name)])

    def folds_from(self, source: Format, cast: ir.Node) -> bool:
        """Whether `cast` folds with a first Cast from `source` to what it reads."""
        return not self._why_not(source, cast)

    def _why_not(self, source: Format, cast: ir.Node) -> str:
        """What speaks against folding `cast` with a first Cast from `source`; "" if nothing."""
        if any(attribute.is_ref() for attribute in cast.attributes.values()):
            return "a call decides what the Cast does"
        middle, target = self._format(cast.inputs[0]), self._format(cast.outputs[0])
        if middle is None or target is None:
            return "a type is not known"
        lacking = BOOL not in (source, target) and not self._is_native(source, target)
        if lacking and source != target:
            return "the target lacks the direct conversion"
        if not folds(source, middle, target, saturates=_saturates(cast)):
            return f"{source} to {middle} to {target} is not exact"
        return ""

    def _format(self, value: ir.Value | None) -> Format | None:
        producer = None if value is None else value.producer()
        # Casts made by a rule are not in the table, but say their type themselves.
        dtype = None if producer is None else cast_target(producer)
        dtype = dtype or self.types.dtype(value)
        return None if dtype is None else formats.of(dtype)

    def _why_no_identity(self, x: ir.Value, cast: ir.Value) -> str:
        source, node = self._format(x), cast.producer()
        assert node is not None
        if source is None:
            return "the source's type is not known"
        if source != self._format(cast):
            return "the Cast changes the type"
        if not is_identity(source, saturates=_saturates(node)):
            return "the Cast saturates infinities"
        return ""

    def _bypass(self, op: Any, x: ir.Value, cast: ir.Value) -> ir.Value:
        self._note(Code.CAST_IDENTITY_DROPPED, f"{self._format(x)} to itself", x, cast)
        return self._identity(op, x)

    def _why_no_pair(self, x: ir.Value, cast: ir.Value) -> str:
        source, second = self._first_source(x), cast.producer()
        assert second is not None
        if source is None:
            return "not a Cast of a Cast, or of an unknown type"
        return self._why_not(source, second)

    def _why_no_round_trip(self, x: ir.Value, cast: ir.Value) -> str:
        second = cast.producer()
        if second is None or is_planned_rounding(second):
            return "an earlier run of the conversion rounds here"
        source, middle, target = self._first_source(x), self._format(x), self._format(cast)
        if source is None or middle is None or target is None:
            return "not a Cast of a Cast, or of an unknown type"
        if not is_round_trip(source, middle, target):
            return f"{source} to {middle} to {target} is no round trip"
        return ""

    def _first_source(self, x: ir.Value) -> Format | None:
        """What `x` was cast from; None if it was not, or that is not known."""
        first = x.producer()
        known = first is not None and cast_target(first) is not None
        return self._format(first.inputs[0]) if first is not None and known else None

    def _drop(self, op: Any, x: ir.Value, cast: ir.Value) -> ir.Value:
        first = x.producer()
        assert first is not None
        value = first.inputs[0]
        assert value is not None
        source, middle = self._format(value), self._format(x)
        assert source is not None
        assert middle is not None
        self._first_casts.append(first)
        trip = f"{source} to {middle} to {source} dropped: loses {losses(source, middle)}"
        self._note(Code.CAST_ROUNDING_DROPPED, trip, value, cast)
        return self._identity(op, value)

    def _join(self, op: Any, x: ir.Value, cast: ir.Value) -> ir.Value:
        first, second = x.producer(), cast.producer()
        assert first is not None
        assert second is not None
        value = first.inputs[0]
        assert value is not None
        source, target = self._format(value), self._format(cast)
        self._first_casts.append(first)
        self._note(Code.CAST_FOLDED, f"{source} to {self._format(x)} to {target}", value, cast)
        if source == target:
            return self._identity(op, value)
        attributes = {name: attribute.value for name, attribute in second.attributes.items()}
        result: ir.Value = op.Cast(value, **attributes)
        return result

    def _identity(self, op: Any, value: ir.Value) -> ir.Value:
        result: ir.Value = op.Identity(value)
        self._identities.append(result)
        return result

    def _note(self, code: Code, pair: str, source: ir.Value, result: ir.Value) -> None:
        node = result.producer()
        assert node is not None
        message = f"{pair}: {result.name} now comes from {source.name}"
        self.findings.append(finding_about(node, code, message))


def _any_cast(op: Any, x: Any) -> Any:
    return op.Cast(x, _allow_other_attributes=True, _outputs=["cast"])


def _saturates(node: ir.Node) -> bool:
    attribute = node.attributes.get("saturate")
    return attribute is None or attribute.is_ref() or bool(attribute.as_int())
