"""Walk a model: its scopes, their nodes, and how an op is called in messages."""

import itertools
from collections.abc import Iterator
from typing import TypeAlias

import onnx_ir as ir

__all__ = [
    "Contents",
    "bodies",
    "contents",
    "label",
    "main_graphs",
    "main_nodes",
    "model_graphs",
    "model_nodes",
    "nested_graphs",
    "nested_scopes",
    "op_name",
    "scopes",
    "upstream",
    "values",
]


Contents: TypeAlias = tuple[list[ir.Graph], list[ir.Node]]
"""Graphs, and the nodes of all of them."""

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The subgraphs that `node` holds, in attribute order."""
    found: list[ir.Graph] = []
    for attribute in node.attributes.data.values():  # the dict itself: this is asked most
        kind = attribute.type
        if kind is _GRAPH:
            if not attribute.is_ref():
                found.append(attribute.as_graph())
        elif kind is _GRAPHS and not attribute.is_ref():
            found.extend(attribute.as_graphs())
    return found


def nested_graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """`graph` and all graphs inside it, outermost first, without recursion."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        # Most nodes of a large model have no attributes at all, which is quickly seen.
        inner = [body for node in current if node.attributes.data for body in bodies(node)]
        pending.extend(reversed(inner))


def main_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The main graph and every subgraph in it, outermost first; no function bodies."""
    yield from nested_graphs(model.graph)


def model_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """Every graph of the model: main, subgraphs, function bodies and their subgraphs."""
    yield from main_graphs(model)
    for function in model.functions.values():
        yield from nested_graphs(function.graph)


def scopes(model: ir.Model, *, functions: bool = True) -> Iterator[tuple[ir.Graph, list[ir.Node]]]:
    """`model_graphs`, each with its nodes, in one walk.

    Args:
        model: The model; its graphs may change meanwhile, but for what is inside their nodes.
        functions: Whether those in functions are among them.
    """
    for scope in (model, *(model.functions.values() if functions else ())):
        yield from nested_scopes(scope.graph)


def nested_scopes(graph: ir.Graph) -> Iterator[tuple[ir.Graph, list[ir.Node]]]:
    """`nested_graphs`, each with its nodes; may change as in `scopes`."""
    pending = [graph]
    while pending:
        current = pending.pop()
        nodes = list(current)
        inner = [body for node in nodes if node.attributes.data for body in bodies(node)]
        pending.extend(reversed(inner))
        yield current, nodes


def contents(model: ir.Model, *, functions: bool = True) -> Contents:
    """What `scopes` gives, but all graphs, and the nodes of all of them."""
    graphs: list[ir.Graph] = []
    nodes: list[ir.Node] = []
    for graph, own in scopes(model, functions=functions):
        graphs.append(graph)
        nodes.extend(own)
    return graphs, nodes


def main_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of `main_graphs`, in that order."""
    return _nodes(model.graph)


def model_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of `model_graphs`, in that order."""
    scopes = [model.graph, *(function.graph for function in model.functions.values())]
    return itertools.chain.from_iterable(map(_nodes, scopes))


def _nodes(scope: ir.Graph) -> Iterator[ir.Node]:
    """The nodes of `nested_graphs`, each graph gone through once."""
    pending = [scope]
    while pending:
        inner: list[ir.Graph] = []
        for node in pending.pop():
            if node.attributes.data:
                inner.extend(bodies(node))
            yield node
        pending.extend(reversed(inner))


def values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Inputs, initializers and results of `graph` itself."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def upstream(*values: ir.Value) -> set[ir.Node]:
    """The nodes that `values` are computed from, in subgraphs and outer scopes too."""
    found: set[ir.Node] = set()
    pending = list(values)
    while pending:
        node = pending.pop().producer()
        if node is None or node in found:
            continue
        found.add(node)
        pending.extend(operand for operand in node.inputs if operand is not None)
        for body in bodies(node):
            for graph in nested_graphs(body):
                pending.extend(graph.outputs)
    return found


def op_name(node: ir.Node) -> str:
    """``Op`` for an ONNX op, ``domain.Op`` for another's."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def label(node: ir.Node) -> str:
    """How messages call a node: its name, or else its op and first result."""
    if node.name:
        return node.name
    result = next((output.name for output in node.outputs if output.name), "")
    return f"{op_name(node)}(-> {result})"
