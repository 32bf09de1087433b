"""Nodes that round a float32 value to a format, and leave it in float32.

A format with an element type is a Cast down and a Cast up, behind a Clip where its range is smaller
than the type's. float32r has no type; it is one call of a model-local function::

    RoundFloat32r11 (x) => (y) {       # |x| neither tiny nor huge
        p = 4097 * x
        y = p - (p - x)                # to nearest even: Veltkamp 1968; Boldo, IJCAR 2006
    }

Huge values are scaled down first, subnormal ones rounded by adding and subtracting a large number,
and what is not finite passes through. onnxruntime's Where loses the sign of zero.
"""

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import FLOAT32, Format
from onnxcast.graph.edit import Names
from onnxcast.graph.opsets import onnx_opset

__all__ = ["FIRST_OPSET", "Roundings"]

FIRST_OPSET = 9
"""The first opset with all ops that roundings to float32r and reductions need (Where)."""

_DOMAIN = "onnxcast.rounding"
_IR_WITH_FUNCTIONS = 8
_OPSET = 13  # for a model without any ONNX op
_HUGE = 2.0**96
_SCALE = 2.0**-32


class Roundings:
    """Makes the nodes that round values of one model."""

    def __init__(self, model: ir.Model, names: Names) -> None:
        self._model = model
        self._names = names

    def nodes(self, value: ir.Value, format_: Format) -> list[ir.Node]:
        """Nodes, in order, that round `value`; the last one's result is the rounded value.

        They are in no graph yet.
        """
        if format_.dtype is None:
            return [self._call(value, format_)]
        nodes = []
        if format_ != formats.of(format_.dtype):
            nodes = self._clip(value, format_)
            value = nodes[-1].outputs[0]
        nodes.append(self._named(_cast(value, format_.dtype)))
        return [*nodes, self._named(_cast(nodes[-1].outputs[0], ir.DataType.FLOAT))]

    def _named(self, node: ir.Node) -> ir.Node:
        node.name = self._names.fresh("round")
        node.outputs[0].name = self._names.fresh("rounded")
        return node

    def _clip(self, value: ir.Value, format_: Format) -> list[ir.Node]:
        limits = []
        for limit in (format_.min, format_.max):
            tensor = ir.tensor(np.array(limit, np.float32))
            limits.append(self._named(ir.node("Constant", [], {"value": tensor})))
        clip = ir.node("Clip", [value, *(node.outputs[0] for node in limits)])
        return [*limits, self._named(clip)]

    def _call(self, value: ir.Value, format_: Format) -> ir.Node:
        name = f"RoundFloat32r{format_.significand - 1}"
        if (_DOMAIN, name, "") not in self._model.functions:
            version = onnx_opset(self._model) or self._model.opset_imports.setdefault("", _OPSET)
            self._model.functions[_DOMAIN, name, ""] = _function(name, format_, version)
            self._model.opset_imports[_DOMAIN] = 1
            self._model.ir_version = max(self._model.ir_version, _IR_WITH_FUNCTIONS)
        return self._named(ir.node(name, [value], domain=_DOMAIN))


def _cast(value: ir.Value, dtype: ir.DataType) -> ir.Node:
    return ir.Node("", "Cast", [value], [ir.AttrInt64("to", dtype)])


class _Body:
    """Builds a function body, value by value."""

    def __init__(self) -> None:
        self.operand = ir.Value(name="x")
        self.nodes: list[ir.Node] = []

    def number(self, number: float) -> ir.Value:
        return self.add("Constant", value=ir.tensor(np.array(number, np.float32)))

    def add(self, op: str, *operands: ir.Value, **attributes: ir.TensorProtocol) -> ir.Value:
        node = ir.node(op, list(operands), attributes)
        node.outputs[0].name = f"v{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]


def _function(name: str, format_: Format, version: int) -> ir.Function:
    body = _Body()
    x = body.operand
    size = body.add("Abs", x)
    # Significands are cut to `significand` bits by one multiplication and two subtractions.
    huge = body.add("Less", body.number(_HUGE), size)
    scale = body.add("Where", huge, body.number(_SCALE), body.number(1.0))
    scaled = body.add("Mul", x, scale)
    split = 2.0 ** (FLOAT32.significand - format_.significand) + 1
    product = body.add("Mul", scaled, body.number(split))
    cut = body.add("Sub", product, body.add("Sub", product, scaled))
    normal = body.add("Div", cut, scale)
    # Below the smallest normal number the steps are equal, so a sum with a number whose own last
    # bit is that step rounds.
    anchor = body.number(1.5 * 2.0 ** (format_.quantum + FLOAT32.significand - 1))
    subnormal = body.add("Sub", body.add("Add", x, anchor), anchor)
    tiny = body.add("Less", size, body.number(2.0**format_.emin))
    rounded = body.add("Where", tiny, subnormal, normal)
    result = body.add("Where", body.add("Less", size, body.number(np.inf)), rounded, x)
    graph = ir.Graph([x], [result], nodes=body.nodes, opset_imports={"": version})
    return ir.Function(_DOMAIN, name, graph=graph, attributes=[])
