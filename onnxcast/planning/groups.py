"""Type groups: the operands and results of one node that must share an element type.

A group is one type variable of one node (``T``, ``T1``, ``U`` in the schema), and the unit of
decision. Only groups that are float32 today are listed: the rest keeps its type.
"""

import dataclasses
import enum
from collections.abc import Iterator

import onnx_ir as ir

from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, main_graphs

__all__ = ["Group", "Kind", "find_groups"]


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
        variable: The schema's name of the variable; "" where no schema tells.
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

    def operand_values(self) -> Iterator[ir.Value]:
        """The operands' values."""
        for index in self.operands:
            value = self.node.inputs[index]
            assert value is not None
            yield value

    def result_values(self) -> Iterator[ir.Value]:
        """The results' values."""
        return (self.node.outputs[index] for index in self.results)


def find_groups(model: ir.Model, types: ElementTypes) -> list[Group]:
    """All float32 groups of the main graph and its subgraphs, outer scopes first.

    A Constant is no group: it is an operand like an initializer.

    In that order every value's producer comes before its readers, since results of a subgraph
    leave it only through groups of kind CONTROL_FLOW.
    """
    return [
        group for graph in main_graphs(model) for node in graph for group in _groups_of(node, types)
    ]


def _groups_of(node: ir.Node, types: ElementTypes) -> Iterator[Group]:
    signature = types.schemas.signature(node)
    kind = _kind(node, types)
    members: dict[str, tuple[list[int], list[int]]] = {}
    not_tensors: set[str] = set()
    for side, values in enumerate((node.inputs, node.outputs)):
        for index, value in enumerate(values):
            variable: str | None = ""
            if kind is Kind.SCHEMA and signature is not None:
                variable = signature.result(index) if side else signature.operand(index)
            if value is None or not value.name or variable is None:
                continue
            type_ = types.of(value)
            if type(type_) is not ir.TensorType:
                not_tensors.add(variable)
            if _is_float(type_):
                members.setdefault(variable, ([], []))[side].append(index)
    for variable, (operands, results) in members.items():
        tensors = variable not in not_tensors
        yield Group(node, variable, tuple(operands), tuple(results), kind, tensors)


def _kind(node: ir.Node, types: ElementTypes) -> Kind:
    if types.schemas.is_call(node):
        return Kind.CALL
    if next(bodies(node), None) is not None:
        return Kind.CONTROL_FLOW
    return Kind.OPAQUE if types.schemas.signature(node) is None else Kind.SCHEMA


def _is_float(type_: ir.TypeProtocol | None) -> bool:
    while isinstance(type_, (ir.SequenceType, ir.OptionalType)):
        type_ = type_.elem_type
    return type_ is not None and type_.dtype == ir.DataType.FLOAT
