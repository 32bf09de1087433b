"""Walking over a serialised model: its graphs, its functions, and every tensor in them."""

__all__ = ["bodies", "nested", "scopes", "tensors"]

from collections.abc import Iterable, Iterator

import onnx


def scopes(model: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """Yield the main graph, every function body, and every graph nested in one of them."""
    yield from nested([model.graph, *model.functions])


def nested(
    roots: Iterable[onnx.GraphProto | onnx.FunctionProto],
) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """Yield `roots` and every graph nested in one of them."""
    pending = list(roots)
    while pending:
        scope = pending.pop()
        yield scope
        for node in scope.node:
            pending.extend(bodies(node))


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that are attributes of `node`."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of `model`: initializers and attributes, dense and sparse.

    Defaults of functions' attributes as well; not what an attribute only refers to.
    """
    for scope in scopes(model):
        if isinstance(scope, onnx.GraphProto):
            yield from scope.initializer
            for sparse in scope.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        else:
            for attribute in scope.attribute_proto:
                yield from _of_attribute(attribute)
        for node in scope.node:
            for attribute in node.attribute:
                yield from _of_attribute(attribute)


def _of_attribute(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.ref_attr_name:
        return
    if attribute.type == onnx.AttributeProto.TENSOR:
        yield attribute.t
    elif attribute.type == onnx.AttributeProto.TENSORS:
        yield from attribute.tensors
    elif attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
        yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
