"""Tensors reduced to one number inside the graph, so that only numbers leave it.

The nodes added for a value v::

    a = Abs (v)
    f = Less (a, inf)              # neither infinity nor NaN
    z = Where (f, a, 0)
    r = Reshape (z, [-1])
    c = Concat (r, [0])            # v may be empty
    v_absmax = ReduceMax (c)       # and the like
"""

import numpy as np
import onnx_ir as ir

from onnxcast.graph.edit import Names

__all__ = ["FIRST_OPSET", "Reducer"]

FIRST_OPSET = 9
"""The first opset with all ops that a reduction needs (Where)."""


class Reducer:
    """Adds reductions at the end of a model's main graph; the model gets them as outputs."""

    def __init__(self, model: ir.Model) -> None:
        self.names = Names(model)
        self._graph = model.graph
        self._graph.outputs.clear()
        self._numbers: dict[float, ir.Value] = {}
        self._rows: dict[float, ir.Value] = {}
        self._flat = self._constant("flat", [-1], np.int64)

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
        padded = self._padded(self.add("Abs", value), 0.0)
        numbers = (self.add(op, padded, keepdims=1) for op in ("ReduceMax", "ReduceSum"))
        return self.output(self.add("Concat", *numbers, axis=0))

    def finite(self, magnitude: ir.Value) -> ir.Value:
        """Where a magnitude is neither infinite nor NaN."""
        return self.add("Less", magnitude, self.number(np.inf))

    def spread(self, value: ir.Value, limit: float) -> str:
        """Output five numbers of a float32 tensor; return the output's name.

        Its least and greatest finite element (infinities the wrong way round if there is none), the
        smallest magnitude above 0, how many elements are not finite, and how many finite ones are
        larger than `limit`.
        """
        magnitude = self.add("Abs", value)
        finite = self.finite(magnitude)
        beyond = self.add("And", finite, self.add("Less", self.number(limit), magnitude))
        above = self.add("And", finite, self.add("Less", self.number(0.0), magnitude))
        numbers = (
            self._extreme("ReduceMin", finite, value, np.inf),
            self._extreme("ReduceMax", finite, value, -np.inf),
            self._extreme("ReduceMin", above, magnitude, np.inf),
            self._count(self.add("Not", finite)),
            self._count(beyond),
        )
        flat = [self.add("Reshape", number, self._flat) for number in numbers]
        return self.output(self.add("Concat", *flat, axis=0))

    def output(self, value: ir.Value) -> str:
        """Make `value` a graph output; return its name."""
        value.type = ir.TensorType(ir.DataType.FLOAT)
        self._graph.outputs.append(value)
        assert value.name is not None
        return value.name

    def number(self, number: float) -> ir.Value:
        """A constant of one number."""
        if number not in self._numbers:
            self._numbers[number] = self._constant("number", number, np.float32)
        return self._numbers[number]

    def _extreme(self, op: str, where: ir.Value, value: ir.Value, neutral: float) -> ir.Value:
        """Reduce the elements of `value` where a condition holds; `neutral` if it never does."""
        kept = self.add("Where", where, value, self.number(neutral))
        return self.add(op, self._padded(kept, neutral), keepdims=0)

    def _padded(self, value: ir.Value, number: float) -> ir.Value:
        """The elements of `value` in a row, with one more, as it may be empty."""
        if number not in self._rows:
            self._rows[number] = self._constant("row", [number], np.float32)
        flat = self.add("Reshape", value, self._flat)
        return self.add("Concat", flat, self._rows[number], axis=0)

    def _count(self, where: ir.Value) -> ir.Value:
        ones = self.add("Cast", where, to=ir.DataType.FLOAT)
        return self.add("ReduceSum", ones, keepdims=0)

    def _constant(self, name: str, content: object, dtype: type[np.generic]) -> ir.Value:
        tensor = ir.tensor(np.array(content, dtype), name=self.names.fresh(name))
        node = ir.node("Constant", [], {"value": tensor})
        node.outputs[0].name = tensor.name
        if len(self._graph):
            self._graph.insert_before(self._graph[0], node)
        else:
            self._graph.append(node)
        return node.outputs[0]
