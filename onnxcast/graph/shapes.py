"""Sizes of values whose shapes may be known in part: a dimension that is not known counts 1."""

import functools
import logging
import math
from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir

from onnxcast.files import protos
from onnxcast.graph.native import NativeFailure, infer_shapes
from onnxcast.graph.skeleton import skeleton
from onnxcast.graph.walk import bodies, op_name

__all__ = ["Shapes", "bytes_of", "elements"]

_logger = logging.getLogger(__name__)


class Shapes:
    """Shapes of the values of `model`: declared, or else inferred by onnx.

    They serve to weigh one thing against another, and nothing is right or wrong by them. Values
    inside functions have the declared ones only. The inference runs once, on demand; what a Cast
    gives that was added later has the shape of what it reads.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._elements: dict[ir.Value, int] = {}

    def of(self, value: ir.Value) -> ir.Shape | None:
        """The shape of `value`; None if not even its rank is known."""
        value = self._with_shape(value)
        if value.shape is not None:
            return value.shape
        inferred = self._inferred.get(value)
        return None if inferred is None else ir.Shape(map(_size, inferred.dim))

    def is_ranked(self, value: ir.Value) -> bool:
        """Whether the rank of `value` is known."""
        value = self._with_shape(value)
        return value.shape is not None or value in self._inferred

    def elements(self, value: ir.Value) -> int:
        """How many elements `value` has; 1 if not even its rank is known."""
        if value not in self._elements:
            known = self._with_shape(value)
            if known.shape is None:
                inferred = self._inferred.get(known)
                count = 1 if inferred is None else math.prod(map(_count, inferred.dim))
            else:
                count = elements(known.shape)
            self._elements[value] = count
        return self._elements[value]

    def _with_shape(self, value: ir.Value) -> ir.Value:
        """`value`, or what it is cast from if it came after the inference."""
        while value.shape is None and value not in self._inferred:
            node = value.producer()
            before = node.inputs[0] if node is not None and op_name(node) == "Cast" else None
            if before is None:
                break
            value = before
        return value

    @functools.cached_property
    def _inferred(self) -> Mapping[ir.Value, onnx.TensorShapeProto]:
        proto = _inferred(skeleton(self._model), data_prop=True)
        return {} if proto is None else dict(_pairs(self._model.graph, proto.graph))


def _inferred(proto: onnx.ModelProto, *, data_prop: bool) -> onnx.ModelProto | None:
    """`proto` with shapes; without following sizes where onnx takes huge vectors for such."""
    try:
        return infer_shapes(proto, data_prop=data_prop)
    except NativeFailure as failure:
        if failure.died and data_prop:
            return _inferred(proto, data_prop=False)
        _logger.info("shapes not inferred: %s", failure)
        return None


def _pairs(
    graph: ir.Graph, proto: onnx.GraphProto
) -> Iterator[tuple[ir.Value, onnx.TensorShapeProto]]:
    """Values without a declared shape, with the one in `proto`, in subgraphs too."""
    pending = [(graph, proto)]
    while pending:
        graph, proto = pending.pop()
        known = {each.name: each.type for each in (*proto.value_info, *proto.output)}
        for index, node in enumerate(graph):
            for value in node.outputs:
                if value.shape is None and value.name in known:
                    type_ = known[value.name].tensor_type
                    if type_.HasField("shape"):
                        yield value, type_.shape
            inner = list(bodies(node))
            if inner:
                pending.extend(zip(inner, protos.bodies(proto.node[index]), strict=True))


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def _count(dim: onnx.TensorShapeProto.Dimension) -> int:
    """What `dim` counts: 1 if it is not known."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else 1


def elements(shape: ir.Shape | None) -> int:
    """How many elements a value of `shape` has; 1 if not even its rank is known."""
    return math.prod(size for size in shape or () if isinstance(size, int) and size >= 0)


def bytes_of(count: int, bits: int) -> int:
    """Bytes of so many elements of so many bits each."""
    return -(-count * bits // 8)
