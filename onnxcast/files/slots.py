"""The places of a model that hold tensors, so that tensors can be counted and exchanged."""

__all__ = ["Slot", "all_nodes", "attribute_tensors", "tensor_slots"]

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import onnx_ir as ir

_GRAPHS = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})
_HOLDING = _GRAPHS | {ir.AttributeType.TENSOR, ir.AttributeType.TENSORS}


class Slot(NamedTuple):
    """One place that holds a tensor: an initializer or an attribute.

    Attributes:
        name: The initializer's name, else the tensor's own.
        tensor: The tensor found there.
        movable: Whether its data may be external: runtimes follow it from initializers and
            Constants only.
        put: Puts another tensor there; `put(tensor)` restores what was found.
    """

    name: str
    tensor: ir.TensorProtocol
    movable: bool
    put: Callable[[ir.TensorProtocol], None]


def tensor_slots(model: ir.Model) -> Iterator[Slot]:
    """Yield the slots of `model`, its subgraphs and functions, in a fixed order."""
    yield from _initializers(model.graph)
    scopes: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for scope in scopes:
        for node in all_nodes(scope, plain=False):
            attributes = node.attributes.data.values()
            for attribute in [each for each in attributes if each.type in _HOLDING]:
                yield from _of_attribute(node, attribute)


def attribute_tensors(nodes: Iterable[ir.Node]) -> Iterator[ir.TensorProtocol]:
    """The tensors that `nodes` hold themselves, not in subgraphs."""
    for node in nodes:
        attributes = node.attributes.data
        for attribute in attributes.values() if attributes else ():
            if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                yield attribute.as_tensor()
            elif attribute.type is ir.AttributeType.TENSORS and not attribute.is_ref():
                yield from attribute.as_tensors()


def all_nodes(scope: ir.Graph | ir.Function, *, plain: bool = True) -> Iterator[ir.Node]:
    """The nodes of `scope.all_nodes()`, in that order, in a fraction of its time.

    Args:
        scope: Where to look.
        plain: Whether those without attributes are wanted.
    """
    pending: list[Iterator[ir.Node]] = [iter(scope)]
    while pending:
        for node in pending[-1]:
            attributes = node.attributes.data
            if attributes or plain:
                yield node
            if not attributes:
                continue
            inner = [
                graph
                for attribute in attributes.values()
                if attribute.type in _GRAPHS and not attribute.is_ref()
                for graph in _graphs(attribute)
            ]
            if inner:
                pending.append(itertools.chain.from_iterable(inner))
                break
        else:
            pending.pop()


def _graphs(attribute: ir.Attr) -> Iterable[ir.Graph]:
    return (
        [attribute.as_graph()]
        if attribute.type is ir.AttributeType.GRAPH
        else attribute.as_graphs()
    )


def _of_attribute(node: ir.Node, attribute: ir.Attr) -> Iterator[Slot]:
    if attribute.is_ref():
        return
    if attribute.type is ir.AttributeType.GRAPH:
        yield from _initializers(attribute.as_graph())
    elif attribute.type is ir.AttributeType.GRAPHS:
        for graph in attribute.as_graphs():
            yield from _initializers(graph)
    elif attribute.type is ir.AttributeType.TENSOR:
        yield _single(node, attribute)
    elif attribute.type is ir.AttributeType.TENSORS:
        for index in range(len(attribute.as_tensors())):
            yield _element(node, attribute, index)


def _initializers(graph: ir.Graph) -> Iterator[Slot]:
    for name, value in graph.initializers.items():
        if value.const_value is not None:

            def put(tensor: ir.TensorProtocol, value: ir.Value = value) -> None:
                value.const_value = tensor

            yield Slot(name, value.const_value, True, put)


def _single(node: ir.Node, attribute: ir.Attr) -> Slot:
    held = attribute.as_tensor()

    def put(tensor: ir.TensorProtocol) -> None:
        node.attributes[attribute.name] = (
            attribute
            if tensor is held
            else ir.AttrTensor(attribute.name, tensor, attribute.doc_string)
        )

    movable = node.op_type == "Constant" and node.domain == ""
    return Slot(held.name or "", held, movable, put)


def _element(node: ir.Node, attribute: ir.Attr, index: int) -> Slot:
    def put(tensor: ir.TensorProtocol) -> None:
        tensors = list(node.attributes[attribute.name].as_tensors())
        tensors[index] = tensor
        node.attributes[attribute.name] = ir.AttrTensors(
            attribute.name, tensors, attribute.doc_string
        )

    held = attribute.as_tensors()[index]
    return Slot(held.name or "", held, False, put)
