"""Sizes of values whose shapes may be known in part: a dimension that is not known counts 1."""

import functools
import logging
import math
from collections.abc import Callable, Iterator, Mapping

import onnx
import onnx_ir as ir

from onnxcast.files import protos
from onnxcast.files.ahead import aside
from onnxcast.graph.native import NativeFailure, infer_shapes
from onnxcast.graph.skeleton import skeleton
from onnxcast.graph.walk import bodies, main_nodes, op_name

__all__ = ["Shapes", "bytes_of", "elements"]

_logger = logging.getLogger(__name__)


_SHAPED_ALIKE = ("Cast", "Clip")
"""Ops whose result has the shape of what they read, of those that are added."""


class Shapes:
    """Shapes of the values of `model`: declared, or else inferred by onnx.

    They serve to weigh one thing against another, and nothing is right or wrong by them. Values
    inside functions have the declared ones only. The inference runs once, on demand; what a Cast or
    Clip gives that was added later has the shape of what it reads.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._declared: dict[ir.Value, int] = {}
        self._begun: Callable[[], onnx.ModelProto | None] | None = None

    def is_ranked(self, value: ir.Value) -> bool:
        """Whether the rank of `value` is known."""
        value = self._with_shape(value)
        return value.shape is not None or value in self._inferred

    def elements(self, value: ir.Value) -> int:
        """How many elements `value` has; 1 if not even its rank is known."""
        count = self._inferred.get(value) if value.shape is None else self._declared.get(value)
        if count is not None:
            return count
        known = self._with_shape(value)
        if known.shape is None:
            return self._inferred.get(known, 1)
        self._declared[known] = elements(known.shape)
        return self._declared[known]

    def _with_shape(self, value: ir.Value) -> ir.Value:
        """`value`, or what it is made of element by element if it came after the inference."""
        while value.shape is None and value not in self._inferred:
            node = value.producer()
            before = node.inputs[0] if node is not None and op_name(node) in _SHAPED_ALIKE else None
            if before is None:
                break
            value = before
        return value

    @functools.cached_property
    def _inferred(self) -> Mapping[ir.Value, int]:
        """How many elements values without a declared shape have, if their rank is known."""
        infer, self._begun = self._begun or self._infer(), None
        proto = infer()
        return {} if proto is None else dict(_counts(self._model.graph, proto.graph))

    def begin(self) -> None:
        """Let onnx infer from now on, beside what is done until the first shape is asked for.

        The model must not change before `finish`.
        """
        if any(v.shape is None for node in main_nodes(self._model) for v in node.outputs):
            self._begun = aside(self._infer())

    def finish(self) -> None:
        """Take what was begun, as it names and counts the nodes that are there now."""
        if self._begun is not None:
            _ = self._inferred

    def _infer(self) -> Callable[[], onnx.ModelProto | None]:
        try:
            proto = skeleton(self._model)
        except (ValueError, ir.serde.SerdeError) as error:  # a shape is a bonus
            _logger.info("shapes not inferred: %s", error)
            return lambda: None
        return functools.partial(_with_shapes, proto, data_prop=True)


def _with_shapes(proto: onnx.ModelProto, *, data_prop: bool) -> onnx.ModelProto | None:
    """`proto` with shapes; without following sizes where onnx takes huge vectors for such."""
    try:
        return infer_shapes(proto, data_prop=data_prop)
    except NativeFailure as failure:
        if failure.died and data_prop:
            return _with_shapes(proto, data_prop=False)
        _logger.info("shapes not inferred: %s", failure)
        return None


def _counts(graph: ir.Graph, proto: onnx.GraphProto) -> Iterator[tuple[ir.Value, int]]:
    """Values without a declared shape, with how many elements they have in `proto`."""
    pending = [(graph, proto)]
    while pending:
        graph, proto = pending.pop()
        counts: dict[str | None, int] = dict(_named_counts(proto))
        for index, node in enumerate(graph):
            for value in node.outputs:
                if value.shape is None and value.name in counts:
                    yield value, counts[value.name]
            inner = bodies(node) if node.attributes.data else []
            if inner:
                pending.extend(zip(inner, protos.bodies(proto.node[index]), strict=True))


def _named_counts(proto: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    """Names of ranked values, with how many elements they have; few shapes differ."""
    known: dict[bytes, int] = {}
    for info in (*proto.value_info, *proto.output):
        type_ = info.type.tensor_type
        shape = type_.shape.SerializeToString()
        if not (shape or type_.HasField("shape")):
            continue
        if shape not in known:
            known[shape] = math.prod(map(_count, type_.shape.dim))
        yield info.name, known[shape]


def _count(dim: onnx.TensorShapeProto.Dimension) -> int:
    """What `dim` counts: 1 if it is not known."""
    size: int = dim.dim_value
    return size if size > 0 or (size == 0 and dim.HasField("dim_value")) else 1


def elements(shape: ir.Shape | None) -> int:
    """How many elements a value of `shape` has; 1 if not even its rank is known."""
    return math.prod(size for size in shape or () if isinstance(size, int) and size >= 0)


def bytes_of(count: int, bits: int) -> int:
    """Bytes of so many elements of so many bits each."""
    return -(-count * bits // 8)
