"""The one table of two properties of ops that let a value stay narrow without changing a bit.

*Closed*: on operands that are values of a format the op gives values of that format, the same that
it gives in a wider one. So it may run in the format behind a producer that does.

*Commutes*: casting its operands gives the same bits as casting its result, so that a Cast may be
moved across. Such an op is closed.

Constants among the operands (the bounds of a Clip, the value of a Pad) must be values of the
format; who asks has to see to it. Data movement is what `meanings` says it is. Not commuting, as
signs of zero differ: Relu, Max, Min, Clip, and Where on onnxruntime, which tells the operands apart
by comparing them with zero. Nor do MaxPool and TopK, which choose another index among numbers that
rounding makes equal.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxcast.formats import FLOAT8E8M0, Format, Kind
from onnxcast.graph.walk import op_name
from onnxcast.policy.meanings import MEANINGS, Meaning

__all__ = ["PROPERTIES", "Properties", "commutes", "is_closed", "may_commute"]


@dataclasses.dataclass(frozen=True)
class Properties:
    """A row: an op that is closed, always or when a condition on the node holds.

    Attributes:
        op: Its name, with its domain if that is not ONNX's.
        commutes: Whether it commutes with Casts, too.
        moves: Whether it moves elements, which it may do in formats of every kind. Other ops flip
            signs or compare, which integers and floats without a negative zero or NaN do otherwise.
        when: The condition.
    """

    op: str
    commutes: bool = False
    moves: bool = False
    when: Callable[[ir.Node], bool] | None = None


def _moving() -> tuple[Properties, ...]:
    # Pad has its value as an attribute in old opsets: whether a format has that is not looked at.
    conditions: dict[str, Callable[[ir.Node], bool]] = {"Pad": _has_no_value_attribute}
    return tuple(
        Properties(row.op, row.op != "Where", True, row.when or conditions.get(row.op))
        for row in MEANINGS
        if row.meaning is Meaning.CARRIER
    )


def _has_no_value_attribute(node: ir.Node) -> bool:
    return "value" not in node.attributes


PROPERTIES: tuple[Properties, ...] = (
    *_moving(),
    Properties("Neg", commutes=True),
    Properties("Abs", commutes=True),
    Properties("Relu"),
    Properties("Max"),
    Properties("Min"),
    Properties("Clip"),
    Properties("Sign"),
    Properties("Floor"),
    Properties("Ceil"),
    Properties("Round"),
    Properties("ReduceMax"),
    Properties("ReduceMin"),
    Properties("MaxPool"),
    Properties("GlobalMaxPool"),
    Properties("TopK"),
)


@functools.cache
def _by_op() -> Mapping[str, Properties]:
    return {row.op: row for row in PROPERTIES}


def _row(node: ir.Node, format_: Format) -> Properties | None:
    """The row of `node` if that holds for it in `format_`."""
    row = _by_op().get(op_name(node))
    if row is None or (row.when is not None and not row.when(node)):
        return None
    if row.moves:  # and fills up with zeros
        return None if format_.kind is Kind.STRING or format_ == FLOAT8E8M0 else row
    complete = format_.has_negative_zero and format_.has_nan
    return row if format_.kind is Kind.FLOAT and complete else None


def is_closed(node: ir.Node, format_: Format) -> bool:
    """Whether `node` gives values of `format_` for such, the same that it gives in a wider one."""
    return _row(node, format_) is not None


def may_commute(node: ir.Node) -> bool:
    """Whether there are formats and operands for which `node` commutes with Casts."""
    row = _by_op().get(op_name(node))
    return row is not None and row.commutes


def commutes(node: ir.Node, format_: Format) -> bool:
    """Whether a Cast to or from `format_` may be moved across `node`."""
    row = _row(node, format_)
    return row is not None and row.commutes
