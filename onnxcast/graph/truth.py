"""Casts to and from bool as other ops, which are exact for every value, and back.

Before::

    b = Cast <to = 9> (x)
    y = Cast <to = 1> (b)

After::

    b = Not (Equal (x, 0))       # NaN is true and -0 false, as for the Cast
    y = Where (b, 1, 0)
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.edit import Names, constant_of
from onnxcast.graph.schemas import signature_of
from onnxcast.graph.walk import op_name

__all__ = [
    "Truths",
    "can_choose",
    "can_compare",
    "is_choice",
    "is_comparison",
]


def can_compare(dtype: ir.DataType, version: int) -> bool:
    """Whether elements of `dtype` can be compared with 0 at an opset version."""
    return all(_takes(op_type, dtype, version) for op_type in ("Equal", "Constant"))


def can_choose(dtype: ir.DataType, version: int) -> bool:
    """Whether 1 and 0 of `dtype` can be chosen from at an opset version."""
    return all(_takes(op_type, dtype, version) for op_type in ("Where", "Constant"))


def _takes(op_type: str, dtype: ir.DataType, version: int) -> bool:
    """Whether an op whose schema calls the type of its elements T takes `dtype`."""
    signature = signature_of("", op_type, version)
    return signature is not None and signature.allows("T", ir.TensorType(dtype))


class Truths:
    """Makes comparisons with 0 and choices of 1 or 0; their constants are shared in a graph.

    Args:
        names: Of the whole model.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._constants: dict[tuple[ir.Graph, ir.DataType, int], ir.Value] = {}

    def compare_with_zero(self, old: ir.Node, value: ir.Value, dtype: ir.DataType) -> list[ir.Node]:
        """Nodes of which the last gives what `old`, a Cast to bool, gives of `value`."""
        stem = old.outputs[0].name or "cast"
        zero = self._constant(0, dtype, old)
        equal = self._node("Equal", [value, zero], ir.DataType.BOOL, f"{stem}_is_zero")
        inverse = self._node("Not", equal.outputs, ir.DataType.BOOL, f"{stem}_is_not_zero")
        return [equal, inverse]

    def choose_one_or_zero(self, old: ir.Node, dtype: ir.DataType) -> ir.Node:
        """A node that gives, in `dtype`, what `old`, a Cast from bool, gives."""
        stem, value = old.outputs[0].name or "cast", old.inputs[0]
        assert value is not None
        numbers = (self._constant(number, dtype, old) for number in (1, 0))
        return self._node("Where", [value, *numbers], dtype, f"{stem}_as_number")

    def _constant(self, number: int, dtype: ir.DataType, near: ir.Node) -> ir.Value:
        graph = near.graph
        assert graph is not None
        key = graph, dtype, number
        if key not in self._constants:
            name = self._names.fresh(f"{'one' if number else 'zero'}_{formats.of(dtype).name}")
            tensor = ir.Tensor(np.array(number, dtype.numpy()), dtype=dtype, name=name)
            attribute = ir.AttrTensor("value", tensor)
            own = self._names.fresh(f"{name}_constant")
            node = ir.Node("", "Constant", [], [attribute], name=own)
            node.outputs[0].name = name
            if near.outputs[0].type is not None:
                node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), ir.Shape([])
            graph.insert_before(graph[0], node)
            self._constants[key] = node.outputs[0]
        return self._constants[key]

    def _node(
        self, op_type: str, operands: Sequence[ir.Value], dtype: ir.DataType, stem: str
    ) -> ir.Node:
        name = self._names.fresh(stem)
        own = self._names.fresh(f"{name}_{op_type.lower()}")
        node = ir.Node("", op_type, operands, name=own)
        node.outputs[0].name = name
        if operands[0].type is not None:
            node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), operands[0].shape
        return node


def is_comparison(node: ir.Node) -> bool:
    """Whether `node` compares its operand with 0 for Nots alone, as `Truths` does."""
    equal = node.op_type == "Equal" and node.domain == "" and _is_number(node.inputs[1], 0)
    return equal and all(op_name(use.node) == "Not" for use in node.outputs[0].uses())


def is_choice(node: ir.Node) -> bool:
    """Whether `node` chooses between 1 and 0, as `Truths` does."""
    where = node.op_type == "Where" and node.domain == ""
    return where and _is_number(node.inputs[1], 1) and _is_number(node.inputs[2], 0)


def _is_number(value: ir.Value | None, number: int) -> bool:
    tensor = constant_of(value)
    # Of rank 0: others may add dimensions to the result.
    return tensor is not None and not tensor.shape.dims and bool(tensor.numpy() == number)
