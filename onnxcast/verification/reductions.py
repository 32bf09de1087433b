"""Tensors reduced to few numbers inside their graph, so that only numbers leave it.

The nodes added for a value v::

    a = Abs (v)
    f = Less (a, inf)              # neither infinity nor NaN
    z = Where (f, a, 0)
    r = Reshape (z, [-1])
    c = Concat (r, [0])            # v may be empty
    v_absmax = ReduceMax (c)       # and the like
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.graph.edit import Names
from onnxcast.graph.opsets import onnx_opset
from onnxcast.verification.lifting import Lifter

__all__ = ["Reducer"]


class Reducer:
    """Adds reductions at the end of a model's graphs; the model gets them as its outputs."""

    def __init__(self, model: ir.Model) -> None:
        self.names = Names(model)
        self._main = self._graph = model.graph
        self._main.outputs.clear()
        self._numbers: dict[float, ir.Value] = {}
        self._rows: dict[float, ir.Value] = {}
        self._flat = self._constant([-1], np.int64)
        self._lifter = Lifter(model, self.names, onnx_opset(model) or 0, self._constant)

    def reaches(self, value: ir.Value) -> bool:
        """Whether `value` can be reduced."""
        return self._lifter.reaches(value.graph)

    def add(self, op: str, *operands: ir.Value, **attributes: int) -> ir.Value:
        """Append a node and return its result."""
        # ir.node would look at each attribute for a long time.
        node = ir.Node("", op, operands, [ir.AttrInt64(*each) for each in attributes.items()])
        node.outputs[0].name = self.names.fresh(op.lower())
        self._graph.append(node)
        return node.outputs[0]

    def magnitude(self, value: ir.Value) -> str:
        """Output two numbers of a float32 tensor: its largest magnitude, and the sum of all.

        Only a sum is sure to show what is not a number.
        """
        self._graph = self._graph_of(value)
        padded = self._padded(self.add("Abs", value), 0.0)
        numbers = (self.add(op, padded, keepdims=1) for op in ("ReduceMax", "ReduceSum"))
        return self.output(self.add("Concat", *numbers, axis=0), [0.0, 0.0])

    def finite(self, magnitude: ir.Value) -> ir.Value:
        """Where a magnitude is neither infinite nor NaN."""
        return self.add("Less", magnitude, self.number(np.inf))

    def spread(self, value: ir.Value, limit: float) -> str:
        """Output five numbers of a float32 tensor; return the output's name.

        Its least finite element, negated, and its greatest; the smallest magnitude above 0,
        negated; how many elements are not finite, and how many finite ones are larger than `limit`.
        The first three are -inf if there is none.
        """
        self._graph = self._graph_of(value)
        magnitude = self.add("Abs", value)
        finite = self.finite(magnitude)
        beyond = self.add("And", finite, self.add("Less", self.number(limit), magnitude))
        above = self.add("And", finite, self.add("Less", self.number(0.0), magnitude))
        numbers = (
            self._greatest(finite, self.add("Neg", value)),
            self._greatest(finite, value),
            self._greatest(above, self.add("Neg", magnitude)),
            self._count(self.add("Not", finite)),
            self._count(beyond),
        )
        flat = [self.add("Reshape", number, self._flat) for number in numbers]
        return self.output(self.add("Concat", *flat, axis=0), [-np.inf] * 3 + [0.0] * 2)

    def distance(self, value: ir.Value, other: ir.Value) -> str:
        """Output two numbers of float32 tensors of one shape; return the output's name.

        The sum of the finite magnitudes of `value`, and of how far `other` is off there.
        """
        self._graph = self._graph_of(value)
        magnitude = self.add("Abs", value)
        off = self.add("Abs", self.add("Sub", other, value))
        finite, zero = self.finite(magnitude), self.number(0.0)
        kept = (self.add("Where", finite, each, zero) for each in (magnitude, off))
        numbers = [self.add("ReduceSum", self._padded(each, 0.0), keepdims=1) for each in kept]
        return self.output(self.add("Concat", *numbers, axis=0), [0.0, 0.0])

    def output(self, row: ir.Value, neutral: Sequence[float]) -> str:
        """Make a row of numbers a graph output; return its name.

        Args:
            row: The last result of the graph that is being added to.
            neutral: What it counts as where it is not computed.
        """
        if self._graph is not self._main:
            comparable = self.add("Less", row, self.number(np.inf))
            row = self.add("Where", comparable, row, self.number(np.inf))
            row = self._lifter.lift(row, neutral)
        row.type, row.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([len(neutral)])
        self._main.outputs.append(row)
        assert row.name is not None
        return row.name

    def _graph_of(self, value: ir.Value) -> ir.Graph:
        graph = value.graph
        assert isinstance(graph, ir.Graph)
        return graph

    def number(self, number: float) -> ir.Value:
        """A constant of one number."""
        if number not in self._numbers:
            self._numbers[number] = self._constant(number, np.float32)
        return self._numbers[number]

    def _greatest(self, where: ir.Value, value: ir.Value) -> ir.Value:
        """The greatest element of `value` where a condition holds; -inf if it never does."""
        kept = self.add("Where", where, value, self.number(-np.inf))
        return self.add("ReduceMax", self._padded(kept, -np.inf), keepdims=0)

    def _padded(self, value: ir.Value, number: float) -> ir.Value:
        """The elements of `value` in a row, with one more, as it may be empty."""
        if number not in self._rows:
            self._rows[number] = self._constant([number], np.float32)
        flat = self.add("Reshape", value, self._flat)
        return self.add("Concat", flat, self._rows[number], axis=0)

    def _count(self, where: ir.Value) -> ir.Value:
        ones = self.add("Cast", where, to=ir.DataType.FLOAT)
        return self.add("ReduceSum", ones, keepdims=0)

    def _constant(self, content: object, dtype: type[np.generic]) -> ir.Value:
        """A constant in front of the main graph, so that every graph sees it."""
        tensor = ir.Tensor(np.array(content, dtype), name=self.names.fresh("constant"))
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
        node.outputs[0].name = tensor.name
        if len(self._main):
            self._main.insert_before(self._main[0], node)
        else:
            self._main.append(node)
        return node.outputs[0]
