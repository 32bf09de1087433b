"""Tensors reduced to one number inside the graph, so that only numbers leave it.

The nodes added for a value v::

    a = Abs (v)
    f = Less (a, inf)              # neither infinity nor NaN
    z = Where (f, a, 0)
    r = Reshape (z, [-1])
    c = Concat (r, [0])            # v may be empty
    v_absmax = ReduceMax (c)
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
        self._infinity = self._constant("infinity", np.inf, np.float32)
        self._zero = self._constant("zero", 0, np.float32)
        self._zeros = self._constant("zeros", [0], np.float32)
        self._flat = self._constant("flat", [-1], np.int64)

    def add(self, op: str, *operands: ir.Value, **attributes: int) -> ir.Value:
        """Append a node and return its result."""
        node = ir.node(op, list(operands), attributes)
        node.outputs[0].name = self.names.fresh(op.lower())
        self._graph.append(node)
        return node.outputs[0]

    def absmax(self, value: ir.Value, *, within: ir.Value | None = None) -> str:
        """Output the largest magnitude in a float32 tensor; return the output's name.

        Args:
            value: The tensor.
            within: A tensor of the same shape; only where it is finite do elements count, and
                infinite ones do too. By default all finite elements count.
        """
        magnitude = self.add("Abs", value)
        judged = magnitude if within is None else self.add("Abs", within)
        finite = self.add("Less", judged, self._infinity)
        kept = self.add("Where", finite, magnitude, self._zero)
        flat = self.add("Concat", self.add("Reshape", kept, self._flat), self._zeros, axis=0)
        result = self.add("ReduceMax", flat, keepdims=0)
        result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([])
        self._graph.outputs.append(result)
        assert result.name is not None
        return result.name

    def _constant(self, name: str, content: object, dtype: type[np.generic]) -> ir.Value:
        tensor = ir.tensor(np.array(content, dtype), name=self.names.fresh(name))
        node = ir.node("Constant", [], {"value": tensor})
        node.outputs[0].name = tensor.name
        if len(self._graph):
            self._graph.insert_before(self._graph[0], node)
        else:
            self._graph.append(node)
        return node.outputs[0]
