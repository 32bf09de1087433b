"""What a target that compiles ONNX itself does not take: opsets, domains, ops, element types."""

from collections.abc import Iterator

import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.opsets import onnx_opset
from onnxcast.graph.schemas import ONNX_DOMAINS
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, model_graphs, model_nodes, op_name, values
from onnxcast.targets.target import Target

__all__ = ["why_refused"]


def why_refused(model: ir.Model, target: Target) -> list[str]:
    """All that `target` does not take of `model`, one phrase each; none if it takes it."""
    return [*_opset(model, target), *_nodes(model, target), *_values(model, target)]


def _opset(model: ir.Model, target: Target) -> Iterator[str]:
    opset = onnx_opset(model)
    if target.opsets is None or opset is None:
        return
    first, last = target.opsets
    if not first <= opset <= last:
        yield f"opset {opset}, where {first} to {last} are wanted"


def _nodes(model: ir.Model, target: Target) -> Iterator[str]:
    refused = dict(target.refused_ops)
    if not (refused or target.one_domain):
        return
    for node in model_nodes(model):
        if target.one_domain and node.domain not in ONNX_DOMAINS:
            yield f"node {label(node)!r} is a {op_name(node)}, which is no op of ONNX"
        elif node.domain in ONNX_DOMAINS and node.op_type in refused:
            yield f"node {label(node)!r} is a {node.op_type} ({refused[node.op_type]})"


def _values(model: ir.Model, target: Target) -> Iterator[str]:
    if target.formats is None:
        return
    types = ElementTypes(model)
    for graph in model_graphs(model):
        for value in values(graph):
            dtype = types.dtype(value)
            if dtype is not None and formats.of(dtype) not in target.formats:
                yield f"value {value.name!r} is {formats.of(dtype)}"
