"""Casts to and from bool as other ops, for targets that convert no bool. Exact for every value.

Before::

    b = Cast <to = 9> (x)
    y = Cast <to = 1> (b)

After::

    b = Not (Equal (x, 0))       # NaN is true and -0 false, as for the Cast
    y = Where (b, 1, 0)
"""

import numpy as np
import onnx_ir as ir

from onnxcast.graph.edit import Names
from onnxcast.graph.schemas import signature_of

__all__ = ["compare_with_zero", "is_comparable", "is_selectable", "select_one_or_zero"]


def is_comparable(dtype: ir.DataType, version: int) -> bool:
    """Whether Equal takes `dtype` at an opset version."""
    return _allows("Equal", 0, dtype, version)


def is_selectable(dtype: ir.DataType, version: int) -> bool:
    """Whether Where chooses between elements of `dtype` at an opset version."""
    return _allows("Where", 1, dtype, version)


def _allows(op_type: str, operand: int, dtype: ir.DataType, version: int) -> bool:
    signature = signature_of("", op_type, version)
    variable = None if signature is None else signature.operand(operand)
    if signature is None or variable is None:
        return False
    return signature.allows(variable, ir.TensorType(dtype))


def compare_with_zero(
    value: ir.Value, dtype: ir.DataType, names: Names, stem: str
) -> list[ir.Node]:
    """Nodes of which the last gives whether elements of `value`, of `dtype`, are not 0."""
    zero = _constant(0, dtype, names, stem)
    equal = _node("Equal", [value, zero.outputs[0]], ir.DataType.BOOL, names, f"{stem}_is_zero")
    inverse = _node("Not", [equal.outputs[0]], ir.DataType.BOOL, names, f"{stem}_is_not_zero")
    return [zero, equal, inverse]


def select_one_or_zero(
    value: ir.Value, dtype: ir.DataType, names: Names, stem: str
) -> list[ir.Node]:
    """Nodes of which the last gives 1 where `value`, a bool, is true and 0 elsewhere."""
    one, zero = (_constant(number, dtype, names, stem) for number in (1, 0))
    operands = [value, one.outputs[0], zero.outputs[0]]
    return [one, zero, _node("Where", operands, dtype, names, f"{stem}_as_number")]


def _constant(number: int, dtype: ir.DataType, names: Names, stem: str) -> ir.Node:
    name = names.fresh(f"{stem}_{'one' if number else 'zero'}")
    tensor = ir.Tensor(np.array(number, dtype.numpy()), dtype=dtype, name=name)
    value = ir.AttrTensor("value", tensor)
    node = ir.Node("", "Constant", [], [value], name=names.fresh(f"{name}_constant"))
    _describe(node.outputs[0], name, dtype, ir.Shape([]))
    return node


def _node(
    op_type: str, operands: list[ir.Value], dtype: ir.DataType, names: Names, stem: str
) -> ir.Node:
    name = names.fresh(stem)
    node = ir.Node("", op_type, operands, name=names.fresh(f"{name}_{op_type.lower()}"))
    _describe(node.outputs[0], name, dtype, operands[0].shape)
    return node


def _describe(value: ir.Value, name: str, dtype: ir.DataType, shape: ir.Shape | None) -> None:
    value.name, value.type, value.shape = name, ir.TensorType(dtype), shape
