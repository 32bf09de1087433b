"""Sizes of values whose shapes may be known in part: a dimension that is not known counts 1."""

import functools
import logging
import math
from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir

from onnxcast.files import protos
from onnxcast.graph.check import leaves_out_operands
from onnxcast.graph.walk import bodies, model_graphs

__all__ = ["Shapes", "bytes_of", "elements"]

_LARGE = 1024
"""Initializers of more bytes are no shapes, and are not handed to the inference."""

_logger = logging.getLogger(__name__)


class Shapes:
    """Shapes of the values of `model`: declared, or else inferred by onnx.

    They serve to weigh one thing against another, and nothing is right or wrong by them. Values
    inside functions have the declared ones only. The inference runs once, on demand.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model

    def of(self, value: ir.Value) -> ir.Shape | None:
        """The shape of `value`; None if not even its rank is known."""
        return self._inferred.get(value) if value.shape is None else value.shape

    @functools.cached_property
    def _inferred(self) -> Mapping[ir.Value, ir.Shape]:
        if leaves_out_operands(self._model):
            return {}
        try:
            proto = onnx.shape_inference.infer_shapes(_hollow(self._model), data_prop=True)
        except Exception as error:  # a shape is a bonus, whatever goes wrong
            _logger.info("shapes not inferred: %s", error)
            return {}
        return dict(_pairs(self._model.graph, proto.graph))


def _hollow(model: ir.Model) -> onnx.ModelProto:
    """`model` without the contents of large initializers."""
    held: dict[ir.Value, ir.TensorProtocol] = {}
    try:
        for graph in model_graphs(model):
            for value in graph.initializers.values():
                tensor = value.const_value
                if tensor is not None and tensor.nbytes > _LARGE:
                    held[value] = tensor
                    value.const_value = _placeholder(tensor)
        return ir.to_proto(model)
    finally:
        for value, tensor in held.items():
            value.const_value = tensor


def _placeholder(tensor: ir.TensorProtocol) -> ir.ExternalTensor:
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor("none", 0, 0, tensor.dtype, shape=shape, name=tensor.name or "")


def _pairs(graph: ir.Graph, proto: onnx.GraphProto) -> Iterator[tuple[ir.Value, ir.Shape]]:
    """Values without a declared shape, with the one in `proto`, in subgraphs too."""
    pending = [(graph, proto)]
    while pending:
        graph, proto = pending.pop()
        known = {each.name: each.type for each in (*proto.value_info, *proto.output)}
        for node, copy in zip(graph, proto.node, strict=True):
            for value in node.outputs:
                type_ = known.get(value.name or "")
                if value.shape is None and type_ is not None and _has_shape(type_):
                    yield value, ir.Shape(map(_size, type_.tensor_type.shape.dim))
            if node.attributes:
                pending.extend(zip(bodies(node), protos.bodies(copy), strict=True))


def _has_shape(type_: onnx.TypeProto) -> bool:
    return bool(type_.HasField("tensor_type") and type_.tensor_type.HasField("shape"))


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def elements(shape: ir.Shape | None) -> int:
    """How many elements a value of `shape` has; 1 if not even its rank is known."""
    return math.prod(size for size in shape or () if isinstance(size, int) and size >= 0)


def bytes_of(shape: ir.Shape | None, bits: int) -> int:
    """Bytes of a value of `shape` with so many bits an element."""
    return -(-elements(shape) * bits // 8)
