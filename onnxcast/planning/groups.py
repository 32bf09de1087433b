"""Type groups: the operands and results of one node that must share an element type.

A group is one type variable of one node (``T``, ``T1``, ``U`` in the schema), and the unit of
decision. Only groups that are float32 today are listed: the rest keeps its type.
"""

import dataclasses
import enum
from typing import Any

import onnx_ir as ir

from onnxcast.graph.ties import Exit

__all__ = ["Group", "Kind"]


class Kind(enum.Enum):
    """How far the schema tells the types of a node."""

    SCHEMA = "the op's schema"
    TIED = "values that an If, a Loop or a Scan ties together"
    CONTROL_FLOW = "an op that holds subgraphs"
    CALL = "a call of a model-local function"
    OPAQUE = "an op without a schema"


@dataclasses.dataclass(eq=False, slots=True)
class Group:
    """One type variable of one node; not frozen, which would triple the time to make one.

    Attributes:
        node: The node.
        variable: The schema's name of the variable, or of several that type inference ties
            together; "" where no schema tells.
        operands: Indices of the operands that have it.
        results: Indices of the results that have it.
        kind: Where the knowledge comes from.
        tensors: Whether all of them are known to be dense tensors.
        entries: Inputs of a body that it hands operands to.
        exits: Outputs of bodies that it hands on.
        alike: One object for all groups that the same is legal for, as their nodes are the same op
            at the same opset with the same attributes and types; None where that does not tell.
    """

    node: ir.Node
    variable: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    kind: Kind
    tensors: bool
    entries: tuple[ir.Value, ...] = ()
    exits: tuple[Exit, ...] = ()
    alike: object = None

    @property
    def variables(self) -> list[str]:
        """The schema's names, one by one."""
        return self.variable.split(", ")

    def operand_values(self) -> list[ir.Value]:
        """The operands' values, and those that bodies give."""
        inputs = self.node.inputs
        # None of those is left out, as it would have no type.
        values: list[Any] = [inputs[index] for index in self.operands]
        if self.exits:
            values.extend(body.outputs[index] for body, index in self.exits)
        return values

    def result_values(self) -> list[ir.Value]:
        """The results' values, and those that bodies take."""
        outputs = self.node.outputs
        values = [outputs[index] for index in self.results]
        if self.entries:
            values.extend(self.entries)
        return values
