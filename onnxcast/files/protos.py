"""Walking over a serialised model: its graphs, its functions, and every tensor in them."""

__all__ = ["Parts", "bodies", "nested", "parts", "scopes", "tensors"]

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx


class Parts(NamedTuple):
    """What a model is made of, found once for all who look: nodes are slow to walk over.

    Attributes:
        scopes: As of `scopes`.
        attributes: All attributes, each with its node and the names of the attributes that the
            function around it declares; none outside functions.
    """

    scopes: list[onnx.GraphProto | onnx.FunctionProto]
    attributes: list[tuple[onnx.NodeProto, onnx.AttributeProto, frozenset[str]]]


def parts(model: onnx.ModelProto) -> Parts:
    """Walk over `model`."""
    found = Parts([], [])
    for root in (model.graph, *model.functions):
        declared = frozenset[str]()
        if isinstance(root, onnx.FunctionProto):
            declared = frozenset((*root.attribute, *(each.name for each in root.attribute_proto)))
        pending = [root]
        while pending:
            scope = pending.pop()
            found.scopes.append(scope)
            for node in scope.node:
                for attribute in node.attribute or ():  # to go through none takes long
                    found.attributes.append((node, attribute, declared))
                    pending.extend(_graphs(attribute))
    return found


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
            if node.attribute:
                pending.extend(bodies(node))


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that are attributes of `node`."""
    for attribute in node.attribute:
        yield from _graphs(attribute)


def _graphs(attribute: onnx.AttributeProto) -> Iterable[onnx.GraphProto]:
    kind = attribute.type
    if kind == onnx.AttributeProto.GRAPH:
        return (attribute.g,)
    return attribute.graphs if kind == onnx.AttributeProto.GRAPHS else ()


def tensors(model: Parts) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of `model`: initializers and attributes, dense and sparse.

    Defaults of functions' attributes as well; not what an attribute only refers to.
    """
    for scope in model.scopes:
        if isinstance(scope, onnx.GraphProto):
            yield from scope.initializer
            for sparse in scope.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        else:
            for attribute in scope.attribute_proto:
                yield from _of_attribute(attribute)
    for _, attribute, _ in model.attributes:
        yield from _of_attribute(attribute)


def _of_attribute(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.ref_attr_name:
        return
    kind = attribute.type
    if kind == onnx.AttributeProto.TENSOR:
        yield attribute.t
    elif kind == onnx.AttributeProto.TENSORS:
        yield from attribute.tensors
    elif kind == onnx.AttributeProto.SPARSE_TENSOR:
        yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
