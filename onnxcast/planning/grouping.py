"""Find the type groups of a model; of nodes that are alike, only those of the first."""

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence

import onnx_ir as ir

from onnxcast.graph.function_ops import FunctionBodies
from onnxcast.graph.inference import inferred_results
from onnxcast.graph.schemas import Signature, type_string
from onnxcast.graph.ties import ties
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies
from onnxcast.planning.groups import Group, Kind

__all__ = ["find_groups"]

_Members = dict[str, tuple[list[int], list[int]]]

_FLOAT32 = ir.TensorType(ir.DataType.FLOAT)

_PROBE = ir.TensorType(ir.DataType.FLOAT16)

_PLAIN = frozenset(
    {
        ir.AttributeType.FLOAT,
        ir.AttributeType.FLOATS,
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.STRING,
        ir.AttributeType.STRINGS,
    }
)
"""Attributes that can be compared as they are."""


def find_groups(nodes: Iterable[ir.Node], types: ElementTypes) -> list[Group]:
    """All float32 groups of `nodes`, those of outer scopes before those of inner ones.

    A Constant is no group: it is an operand like an initializer.

    In that order every value's producer comes before its readers, but where a body hands values
    out: those come from groups of kind TIED or CONTROL_FLOW, which come before what is inside.
    """
    finder = _Finder(types)
    return [group for node in nodes for group in finder.of(node)]


_Pattern = tuple[str, tuple[int, ...], tuple[int, ...], bool, object]
"""Variable, operands, results, tensors and alike of a group of kind SCHEMA."""


class _Finder:
    """Finds the groups of nodes; of nodes that are alike, only of the first."""

    def __init__(self, types: ElementTypes) -> None:
        self._types = types
        self._bodies = FunctionBodies()
        self._known: dict[Hashable, list[_Pattern] | None] = {None: None}

    def of(self, node: ir.Node) -> Iterable[Group]:
        """The groups of `node`."""
        key = self._likeness(node)
        if key not in self._known:
            self._known[key] = self._patterns(node)
        patterns = self._known[key]
        if patterns is None:
            return self._found(node)
        return [
            Group(node, variable, operands, results, Kind.SCHEMA, tensors, (), (), alike)
            for variable, operands, results, tensors, alike in patterns
        ]

    def _patterns(self, node: ir.Node) -> list[_Pattern] | None:
        """The groups of all nodes that are like `node`; None if it has no schema to tell them."""
        if self._types.schemas.signature(node) is None:
            return None
        return [
            (each.variable, each.operands, each.results, each.tensors, object())
            for each in self._found(node)
        ]

    def _likeness(self, node: ir.Node) -> Hashable | None:
        """What `node` shares with all that have the same groups, for which the same is legal.

        None if that is not told by op, opset, attributes and types: then it is a case of its own.
        """
        attributes = _plain(node) if node.attributes.data else ()
        if attributes is None:
            return None
        return (
            id(self._types.schemas.opsets(node.graph)),
            node.domain,
            node.op_type,
            node.overload,  # one of them may be a function
            attributes,
            self._told(node.inputs),
            self._told(node.outputs),
        )

    def _told(self, values: Sequence[ir.Value | None]) -> tuple[ir.DataType | str | None, ...]:
        """The types of values, "" for what nothing tells, None for what is left out."""
        found: list[ir.DataType | str | None] = []
        for value in values:
            type_ = None if value is None else self._types.of(value)
            if value is None or not value.name:
                found.append(None)
            elif type(type_) is ir.TensorType:
                found.append(type_.dtype)
            else:
                found.append("" if type_ is None else type_string(type_))
        return tuple(found)

    def _found(self, node: ir.Node) -> Iterator[Group]:
        types = self._types
        signature, kind = types.schemas.signature(node), _kind(node, types)
        tied = list(_tied(node, signature, types)) if kind is Kind.CONTROL_FLOW else []
        yield from tied
        by_schema = signature if kind is Kind.SCHEMA else None
        members, not_tensors = _members(node, types, by_schema, tied)
        joined = [[variable] for variable in members]
        if len(members) > 1 and signature is not None:
            joined = _joined(node, signature, members, types, self._bodies)
        for variables in joined:
            operands = sorted(index for variable in variables for index in members[variable][0])
            results = sorted(index for variable in variables for index in members[variable][1])
            tensors = not_tensors.isdisjoint(variables)
            yield Group(node, ", ".join(variables), tuple(operands), tuple(results), kind, tensors)


def _plain(node: ir.Node) -> tuple[tuple[str, Hashable], ...] | None:
    """The attributes of `node`, if all of them can be compared as they are."""
    found = []
    for name, attribute in node.attributes.data.items():
        if attribute.type not in _PLAIN or attribute.is_ref():
            return None
        value = attribute.value
        found.append((name, tuple(value) if isinstance(value, list | tuple) else value))
    return tuple(found)


def _members(
    node: ir.Node, types: ElementTypes, signature: Signature | None, others: Sequence[Group]
) -> tuple[_Members, set[str]]:
    """Float operands and results by variable, and the variables that are not only of tensors.

    Args:
        node: The node.
        types: Element types.
        signature: Tells the variables; without it all are one.
        others: Groups that have some of them already.
    """
    elsewhere = {(0, index) for group in others for index in group.operands}
    elsewhere.update((1, index) for group in others for index in group.results)
    members: _Members = {}
    not_tensors: set[str] = set()
    for side, index, value in _named_values(node):
        type_ = types.of(value)
        is_tensor, is_float = type(type_) is ir.TensorType, _is_float(type_)
        if is_tensor and not is_float:
            continue
        variable: str | None = ""
        if signature is not None:
            variable = signature.result(index) if side else signature.operand(index)
        if variable is None or (side, index) in elsewhere:
            continue
        if not is_tensor:
            not_tensors.add(variable)
        if is_float:
            members.setdefault(variable, ([], []))[side].append(index)
    return members, not_tensors


def _tied(node: ir.Node, signature: Signature | None, types: ElementTypes) -> Iterator[Group]:
    """Groups of what an If, a Loop or a Scan hands in and out, as far as all of it is known."""
    for tie in ties(node) if signature is not None else ():
        assert signature is not None
        names = {
            *map(signature.operand, tie.operands),
            *map(signature.result, tie.results),
        }
        operands = [node.inputs[index] for index in tie.operands]
        if None in names or None in operands or not (tie.results or tie.entries):
            continue
        variable = ", ".join(sorted(filter(None, names)))
        group = Group(
            node,
            variable,
            tie.operands,
            tie.results,
            Kind.TIED,
            tensors=True,
            entries=tie.entries,
            exits=tie.exits,
        )
        values = (*group.operand_values(), *group.result_values())
        if all(types.of(value) == _FLOAT32 and value.graph is not None for value in values):
            yield group


def _named_values(node: ir.Node) -> Iterator[tuple[int, int, ir.Value]]:
    """Operands (side 0) and results (side 1) that are not left out, with their index."""
    for side, values in enumerate((node.inputs, node.outputs)):
        for index, value in enumerate(values):
            if value is not None and value.name:
                yield side, index, value


def _joined(
    node: ir.Node,
    signature: Signature,
    members: _Members,
    types: ElementTypes,
    function_bodies: FunctionBodies,
) -> list[list[str]]:
    """Variables of one node, those together that type inference or the body ties to one another.

    RMSNormalization-23 gives its result the variable of the scale and infers its type from the
    input, so all three must agree whatever the schema's letters say; so must both variables of
    Attention-23, whose body multiplies one by the other.
    """
    attributes = [a for a in node.attributes.values() if not a.is_ref()]
    operands = [None if value is None else types.of(value) for value in node.inputs]
    version = types.schemas.version(node)
    assert version is not None

    def infer(*variables: str) -> list[ir.TypeProtocol | None] | None:
        probed = {index for variable in variables for index in members[variable][0]}
        given = [_PROBE if k in probed else type_ for k, type_ in enumerate(operands)]
        if not function_bodies.accept(node, signature, version, given):
            return None
        return inferred_results(node, signature, given, attributes)

    joined = [[variable] for variable in members]
    for one, other in itertools.permutations(members, 2):
        alone = infer(one)
        if alone is None:
            tied = infer(one, other) is not None
        else:
            tied = any(alone[index] == _PROBE for index in members[other][1])
        if tied:
            _join(joined, one, other)
    return joined


def _join(joined: list[list[str]], one: str, other: str) -> None:
    left = next(variables for variables in joined if one in variables)
    right = next(variables for variables in joined if other in variables)
    if left is not right:
        left.extend(right)
        joined.remove(right)


def _kind(node: ir.Node, types: ElementTypes) -> Kind:
    if types.schemas.is_call(node):
        return Kind.CALL
    if bodies(node):
        return Kind.CONTROL_FLOW
    return Kind.OPAQUE if types.schemas.signature(node) is None else Kind.SCHEMA


def _is_float(type_: ir.TypeProtocol | None) -> bool:
    # A sequence's or optional's dtype is that of the tensors inside.
    return type_ is not None and type_.dtype == ir.DataType.FLOAT
