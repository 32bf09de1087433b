"""Bring a row of numbers out of a subgraph, to be seen from outside.

Before::

    y = If (c) <then_branch = { ... row = ... }, else_branch = { ... }>

After::

    y, lifted = If (c) <then_branch = { ... row = ... }, else_branch = { ... neutral = Constant }>

A Loop or a Scan stacks a row for each step, of which the greatest numbers are taken.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.graph.edit import Names
from onnxcast.graph.walk import bodies, main_nodes

__all__ = ["Lifter"]

_FLOAT = ir.TensorType(ir.DataType.FLOAT)
_AXES_AS_OPERAND = 18


class Lifter:
    """Lifts values of one model; what it adds depends on nothing but constants of the main graph.

    Args:
        model: The model.
        names: Its names.
        version: Its opset.
        constant: Makes a constant of the main graph.
    """

    def __init__(
        self,
        model: ir.Model,
        names: Names,
        version: int,
        constant: Callable[[Sequence[object], type[np.generic]], ir.Value],
    ) -> None:
        self._main = model.graph
        self._names = names
        self._version = version
        self._constant = constant
        self._owners: Mapping[ir.Graph, ir.Node] = {
            body: node for node in main_nodes(model) for body in bodies(node)
        }

    def reaches(self, graph: ir.Graph | None) -> bool:
        """Whether values of `graph` can be lifted: it lies in If, Loop and Scan alone."""
        while graph is not None and graph is not self._main:
            owner = self._owners[graph]
            if owner.domain != "" or owner.op_type not in ("If", "Loop", "Scan"):
                return False
            graph = owner.graph
        return graph is not None

    def lift(self, row: ir.Value, neutral: Sequence[float]) -> ir.Value:
        """The value of the main graph that tells what `row` was.

        Args:
            row: A float32 vector, the last result of its graph, without NaN.
            neutral: What it counts as where it is not computed; no greater than what it may be.
        """
        graph = row.graph
        assert graph is not None
        while graph is not self._main:
            owner = self._owners[graph]
            row = self._through(owner, graph, row, neutral)
            assert owner.graph is not None
            graph = owner.graph
        return row

    def _through(
        self, owner: ir.Node, graph: ir.Graph, row: ir.Value, neutral: Sequence[float]
    ) -> ir.Value:
        row.type, row.shape = _FLOAT, ir.Shape([len(neutral)])
        for body in bodies(owner):
            body.outputs.append(row if body is graph else self._neutral(body, neutral))
        owner.resize_outputs(len(owner.outputs) + 1)
        lifted = owner.outputs[-1]
        lifted.name, lifted.type = self._names.fresh("lifted"), _FLOAT
        if owner.op_type == "If":
            return lifted
        for name in ("scan_output_axes", "scan_output_directions"):
            known = owner.attributes.get(name)
            if known is not None:
                owner.attributes[name] = ir.AttrInt64s(name, [*known.as_ints(), 0])
        return self._greatest(owner, lifted, neutral)

    def _neutral(self, body: ir.Graph, neutral: Sequence[float]) -> ir.Value:
        tensor = ir.Tensor(np.array(neutral, np.float32))
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
        body.append(self._named(node))
        node.outputs[0].type, node.outputs[0].shape = _FLOAT, ir.Shape([len(neutral)])
        return node.outputs[0]

    def _greatest(self, owner: ir.Node, rows: ir.Value, neutral: Sequence[float]) -> ir.Value:
        """The greatest numbers of stacked rows, of which there may be none."""
        first = self._constant([list(neutral)], np.float32)
        stacked = self._named(ir.Node("", "Concat", [first, rows], [ir.AttrInt64("axis", 0)]))
        operands, attributes = [stacked.outputs[0]], [ir.AttrInt64("keepdims", 0)]
        if self._version >= _AXES_AS_OPERAND:
            operands.append(self._constant([0], np.int64))
        else:
            attributes.append(ir.AttrInt64s("axes", [0]))
        greatest = self._named(ir.Node("", "ReduceMax", operands, attributes))
        assert owner.graph is not None
        owner.graph.insert_after(owner, [stacked, greatest])
        return greatest.outputs[0]

    def _named(self, node: ir.Node) -> ir.Node:
        node.outputs[0].name = self._names.fresh("lifted")
        return node
