"""Type groups: the operands and results of one node that must share an element type.

A group is one type variable of one node (``T``, ``T1``, ``U`` in the schema), and the unit of
decision. Only groups that are float32 today are listed: the rest keeps its type.
"""

import dataclasses
import enum
import itertools
from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onnxcast.graph.function_ops import FunctionBodies
from onnxcast.graph.inference import inferred_results
from onnxcast.graph.schemas import Signature
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies

__all__ = ["Group", "Kind", "find_groups"]


_Members = dict[str, tuple[list[int], list[int]]]

_PROBE = ir.TensorType(ir.DataType.FLOAT16)


class Kind(enum.Enum):
    """How far the schema tells the types of a node."""

    SCHEMA = "the op's schema"
    CONTROL_FLOW = "an op that holds subgraphs"
    CALL = "a call of a model-local function"
    OPAQUE = "an op without a schema"


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Group:
    """One type variable of one node.

    Attributes:
        node: The node.
        variable: The schema's name of the variable, or of several that type inference ties
            together; "" where no schema tells.
        operands: Indices of the operands that have it.
        results: Indices of the results that have it.
        kind: Where the knowledge comes from.
        tensors: Whether all of them are known to be dense tensors.
    """

    node: ir.Node
    variable: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    kind: Kind
    tensors: bool

    @property
    def variables(self) -> list[str]:
        """The schema's names, one by one."""
        return self.variable.split(", ")

    def operand_values(self) -> Iterator[ir.Value]:
        """The operands' values."""
        for index in self.operands:
            value = self.node.inputs[index]
            assert value is not None
            yield value

    def result_values(self) -> Iterator[ir.Value]:
        """The results' values."""
        return (self.node.outputs[index] for index in self.results)


def find_groups(graphs: Iterable[ir.Graph], types: ElementTypes) -> list[Group]:
    """All float32 groups of `graphs`, which hold outer scopes before inner ones.

    A Constant is no group: it is an operand like an initializer.

    In that order every value's producer comes before its readers, since results of a subgraph
    leave it only through groups of kind CONTROL_FLOW.
    """
    function_bodies = FunctionBodies()
    return [
        group
        for graph in graphs
        for node in graph
        for group in _groups_of(node, types, function_bodies)
    ]


def _groups_of(
    node: ir.Node, types: ElementTypes, function_bodies: FunctionBodies
) -> Iterator[Group]:
    signature, kind = types.schemas.signature(node), _kind(node, types)
    members: _Members = {}
    not_tensors: set[str] = set()
    for side, index, value in _named_values(node):
        variable: str | None = ""
        if kind is Kind.SCHEMA and signature is not None:
            variable = signature.result(index) if side else signature.operand(index)
        if variable is None:
            continue
        type_ = types.of(value)
        if type(type_) is not ir.TensorType:
            not_tensors.add(variable)
        if _is_float(type_):
            members.setdefault(variable, ([], []))[side].append(index)
    joined = [[variable] for variable in members]
    if len(members) > 1 and signature is not None:
        joined = _joined(node, signature, members, types, function_bodies)
    for variables in joined:
        operands = sorted(index for variable in variables for index in members[variable][0])
        results = sorted(index for variable in variables for index in members[variable][1])
        tensors = not_tensors.isdisjoint(variables)
        yield Group(node, ", ".join(variables), tuple(operands), tuple(results), kind, tensors)


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
    if next(bodies(node), None) is not None:
        return Kind.CONTROL_FLOW
    return Kind.OPAQUE if types.schemas.signature(node) is None else Kind.SCHEMA


def _is_float(type_: ir.TypeProtocol | None) -> bool:
    # A sequence's or optional's dtype is that of the tensors inside.
    return type_ is not None and type_.dtype == ir.DataType.FLOAT
