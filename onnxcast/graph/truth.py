"""Casts to and from bool as other ops, which are exact for every value, and back.

Before::

    b = Cast <to = 9> (x)
    y = Cast <to = 1> (b)

After::

    b = Not (Equal (x, 0))       # NaN is true and -0 false, as for the Cast
    y = Where (b, 1, 0)
"""

import numpy as np
import onnx_ir as ir

from onnxcast.graph.edit import Names, constant_of
from onnxcast.graph.schemas import signature_of

__all__ = [
    "can_choose",
    "can_compare",
    "choose_one_or_zero",
    "compare_with_zero",
    "is_choice",
    "is_comparison",
]


def can_compare(dtype: ir.DataType, version: int) -> bool:
    """Whether elements of `dtype` can be compared with 0 at an opset version."""
    return _allows("Equal", 0, dtype, version) and _is_constant(dtype, version)


def can_choose(dtype: ir.DataType, version: int) -> bool:
    """Whether 1 and 0 of `dtype` can be chosen from at an opset version."""
    return _allows("Where", 1, dtype, version) and _is_constant(dtype, version)


def _allows(op_type: str, operand: int, dtype: ir.DataType, version: int) -> bool:
    signature = signature_of("", op_type, version)
    variable = None if signature is None else signature.operand(operand)
    if signature is None or variable is None:
        return False
    return signature.allows(variable, ir.TensorType(dtype))


def _is_constant(dtype: ir.DataType, version: int) -> bool:
    signature = signature_of("", "Constant", version)
    variable = None if signature is None else signature.result(0)
    if signature is None or variable is None:
        return False
    return signature.allows(variable, ir.TensorType(dtype))


def compare_with_zero(
    value: ir.Value, dtype: ir.DataType, names: Names, stem: str
) -> list[ir.Node]:
    """Nodes of which the last gives whether elements of `value`, of `dtype`, are not 0."""
    zero = _constant(0, dtype, names, stem, value)
    equal = _node("Equal", [value, zero.outputs[0]], ir.DataType.BOOL, names, f"{stem}_is_zero")
    inverse = _node("Not", [equal.outputs[0]], ir.DataType.BOOL, names, f"{stem}_is_not_zero")
    return [zero, equal, inverse]


def choose_one_or_zero(
    value: ir.Value, dtype: ir.DataType, names: Names, stem: str
) -> list[ir.Node]:
    """Nodes of which the last gives 1 where `value`, a bool, is true and 0 elsewhere."""
    one, zero = (_constant(number, dtype, names, stem, value) for number in (1, 0))
    operands = [value, one.outputs[0], zero.outputs[0]]
    return [one, zero, _node("Where", operands, dtype, names, f"{stem}_as_number")]


def is_comparison(node: ir.Node) -> bool:
    """Whether `node` compares its operand with 0 for Nots alone, as `compare_with_zero` does."""
    equal = node.op_type == "Equal" and node.domain == "" and _is_number(node.inputs[1], 0)
    return equal and all(use.node.op_type == "Not" for use in node.outputs[0].uses())


def is_choice(node: ir.Node) -> bool:
    """Whether `node` chooses between 1 and 0, as `choose_one_or_zero` does."""
    where = node.op_type == "Where" and node.domain == ""
    return where and _is_number(node.inputs[1], 1) and _is_number(node.inputs[2], 0)


def _is_number(value: ir.Value | None, number: int) -> bool:
    tensor = constant_of(value)
    # Of rank 0: others may add dimensions to the result.
    return tensor is not None and not tensor.shape.dims and bool(tensor.numpy() == number)


def _constant(
    number: int, dtype: ir.DataType, names: Names, stem: str, beside: ir.Value
) -> ir.Node:
    name = names.fresh(f"{stem}_{'one' if number else 'zero'}")
    tensor = ir.Tensor(np.array(number, dtype.numpy()), dtype=dtype, name=name)
    value = ir.AttrTensor("value", tensor)
    node = ir.Node("", "Constant", [], [value], name=names.fresh(f"{name}_constant"))
    node.outputs[0].name = name
    if beside.type is not None:
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), ir.Shape([])
    return node


def _node(
    op_type: str, operands: list[ir.Value], dtype: ir.DataType, names: Names, stem: str
) -> ir.Node:
    name = names.fresh(stem)
    node = ir.Node("", op_type, operands, name=names.fresh(f"{name}_{op_type.lower()}"))
    node.outputs[0].name = name
    if operands[0].type is not None:
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), operands[0].shape
    return node
