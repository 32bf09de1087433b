"""Fold Casts that lose nothing: identities, and pairs whose first Cast is exact.

Before::

    a = Cast <to = 1> (x)          # x is float16
    b = Cast <to = 10> (a)
    c = Cast <to = 16> (a)

After::

    c = Cast <to = 16> (x)         # b's readers read x

For A to B to C, with every value of A a value of B: one Cast from A to C; none if C is A and the
second Cast is the identity on A. A narrowing round trip is never removed. A middle value that
others read, or that is a graph output, stays; only the second Cast is rewired and keeps its
``saturate`` and ``round_mode``. Bit-exact. Seed: SKaiNET #1494.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.formats import BOOL, Format, Kind
from onnxcast.graph.edit import cast_target, take_place
from onnxcast.graph.findings import finding_about
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import model_graphs

__all__ = ["FoldCastsPass", "folds"]

IsNative: TypeAlias = Callable[[Format, Format], bool]

_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED)


def folds(source: Format, middle: Format, target: Format, *, saturates: bool = True) -> bool:
    """Whether a Cast from `source` over `middle` to `target` gives what a direct one gives.

    Args:
        source: Format of the value.
        middle: Format after the first Cast.
        target: Format after the second Cast; `source` means that no Cast is left.
        saturates: The second Cast's attribute, of meaning for float8 targets only.
    """
    if not formats.contains(middle, source):
        return False
    if middle == source and not _is_identity_on(source, saturates=True):
        return False
    if target == source:
        return _is_identity_on(source, saturates)
    if target.kind is Kind.STRING:
        # What is printed depends on the type, but for integers.
        return source.kind in _INTEGERS and middle.kind in _INTEGERS
    if target.kind in _INTEGERS:
        return formats.contains(target, source)  # else undefined for some values
    return True


def _is_identity_on(format_: Format, saturates: bool) -> bool:
    """Whether a Cast of `format_` to itself keeps every value."""
    # A saturating Cast turns an infinity into the largest finite number.
    return not (format_.has_inf and format_.bits == 8 and saturates)


class FoldCastsPass(ir.passes.InPlacePass):
    """Removes identity Casts and exact halves of Cast pairs.

    Args:
        is_native: Whether the target has a conversion; by default it has all. No Cast is made that
            it lacks, but to and from bool, which become other ops.

    Attributes:
        findings: One per fold of the last call, naming pair and values.
    """

    def __init__(self, is_native: IsNative = lambda _source, _target: True) -> None:
        self._is_native = is_native
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold in every scope of `model`, until nothing is left to fold."""
        self.findings = []
        while self._round(model):
            pass
        return ir.passes.PassResult(model, bool(self.findings))

    def _round(self, model: ir.Model) -> bool:
        folder = _Folder(ElementTypes(model), self._is_native)
        rules = folder.rules()
        for graph in model_graphs(model):
            for node in graph:
                if cast_target(node) is not None:
                    _apply_first(rules, model, graph, node)
        folder.clean_up()
        self.findings.extend(folder.findings)
        return bool(folder.findings)


def _apply_first(
    rules: Sequence[RewriteRule], model: ir.Model, graph: ir.Graph, node: ir.Node
) -> None:
    """Rewrite `node` by the first rule that matches; the new node keeps its name and metadata.

    RewriteRuleSet would rename every unnamed node of the model as well, and values whose names
    repeat in sibling scopes.
    """
    for rule in rules:
        change = rule.try_rewrite(model, graph, node)
        if change is None:
            continue
        (new,) = change.new_nodes
        new.name = node.name
        take_place(node, [new])
        return


class _Folder:
    """The two rules, sharing the element types of the model and the list of findings."""

    def __init__(self, types: ElementTypes, is_native: IsNative) -> None:
        self._types = types
        self._is_native = is_native
        self._identities: list[ir.Value] = []
        self._first_casts: list[ir.Node] = []
        self.findings: list[Diagnostic] = []

    def rules(self) -> list[RewriteRule]:
        """Identity first: what it leaves may be a pair that folds."""
        return [
            RewriteRule(_any_cast, self._bypass, self._is_identity),
            RewriteRule(_any_cast, self._join, self._is_pair),
        ]

    def clean_up(self) -> None:
        """Let readers of identities read their source, and drop first Casts nobody reads."""
        for value in self._identities:
            _drop_identity(value)
        for node in self._first_casts:
            output = node.outputs[0]
            if node.graph is not None and not (output.uses() or output.is_graph_output()):
                node.graph.remove(node, safe=True)

    def _format(self, value: ir.Value | None) -> Format | None:
        producer = None if value is None else value.producer()
        # Casts made by a rule are not in the table, but say their type themselves.
        dtype = None if producer is None else cast_target(producer)
        dtype = dtype or self._types.dtype(value)
        return None if dtype is None else formats.of(dtype)

    def _is_identity(self, context: object, x: ir.Value, cast: ir.Value) -> MatchResult:
        del context
        source, node = self._format(x), cast.producer()
        assert node is not None
        if source is None:
            return MatchResult().fail("the source's type is not known", x)
        if source != self._format(cast):
            return MatchResult().fail("the Cast changes the type", cast)
        if not _is_identity_on(source, _saturates(node)):
            return MatchResult().fail("the Cast saturates infinities", cast)
        return MatchResult()

    def _bypass(self, op: Any, x: ir.Value, cast: ir.Value) -> ir.Value:
        self._note(Code.CAST_IDENTITY_DROPPED, f"{self._format(x)} to itself", x, cast)
        return self._identity(op, x)

    def _is_pair(self, context: object, x: ir.Value, cast: ir.Value) -> MatchResult:
        del context
        first, second = x.producer(), cast.producer()
        if first is None or second is None or cast_target(first) is None:
            return MatchResult().fail("not a Cast of a Cast", cast)
        if any(attribute.is_ref() for attribute in second.attributes.values()):
            return MatchResult().fail("a call decides what the Cast does", cast)
        chain = (self._format(first.inputs[0]), self._format(x), self._format(cast))
        source, middle, target = chain
        if source is None or middle is None or target is None:
            return MatchResult().fail("the source's type is not known", first.inputs[0])
        lacking = BOOL not in (source, target) and not self._is_native(source, target)
        if lacking and source != target:
            return MatchResult().fail("the target lacks the direct conversion", cast)
        if not folds(source, middle, target, saturates=_saturates(second)):
            return MatchResult().fail(f"{source} to {middle} to {target} is not exact", cast)
        return MatchResult()

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


def _drop_identity(value: ir.Value) -> None:
    """Let the readers of an Identity read its source, if that keeps graph outputs apart."""
    node = value.producer()
    assert node is not None
    source, graph = node.inputs[0], node.graph
    assert source is not None
    assert graph is not None
    if value.is_graph_output():
        if source.producer() is None or source.graph is not graph or source.is_graph_output():
            return
        name = value.name
        value.replace_all_uses_with(source, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        source.name, source.type, source.shape = name, value.type, value.shape
        source.doc_string = value.doc_string
        return
    value.replace_all_uses_with(source)
    graph.remove(node, safe=True)
