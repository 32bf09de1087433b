"""Casts that give what an earlier one gives, in the same scope or in one around it."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Kind
from onnxcast.graph.edit import cast_target, casts_among
from onnxcast.graph.walk import bodies, model_nodes

__all__ = ["repeated_casts"]

_Key: TypeAlias = tuple[ir.Value, ir.DataType, bool, str]


def repeated_casts(
    model: ir.Model, casts: Iterable[ir.Node] | None = None
) -> dict[ir.Value, ir.Value]:
    """Results of Casts that repeat another, each with the first's, which its readers can see.

    Args:
        model: The model.
        casts: All its Casts, if they are at hand.
    """
    found: dict[ir.Value, ir.Value] = {}
    read = [node.inputs[0] for node in casts or casts_among(model_nodes(model))]
    if len(set(read)) < len(read):  # which is seen sooner than scope by scope
        for scope in (model.graph, *(function.graph for function in model.functions.values())):
            _find_in(scope, found)
    return found


def _find_in(scope: ir.Graph, found: dict[ir.Value, ir.Value]) -> None:
    known: dict[_Key, ir.Value] = {}  # first results in the graphs around the place in hand
    pending: list[tuple[Iterator[ir.Node], list[_Key]]] = [(iter(scope), [])]
    while pending:
        nodes, own = pending[-1]
        for node in nodes:
            key = _meaning(node, found) if node.op_type == "Cast" else None
            if key in known:
                found[node.outputs[0]] = known[key]
            elif key is not None:
                known[key] = node.outputs[0]
                own.append(key)
            inner = bodies(node) if node.attributes.data else []
            if inner:  # first what is in them, then the rest of the nodes
                pending.extend((iter(body), []) for body in reversed(inner))
                break
        else:
            pending.pop()
            for key in own:
                del known[key]


def _meaning(node: ir.Node, found: dict[ir.Value, ir.Value]) -> _Key | None:
    """What a Cast reads and does; None for other nodes, and Casts that a call directs."""
    to = cast_target(node)
    value = None if to is None else node.inputs[0]
    if to is None or value is None:
        return None
    attributes = node.attributes
    if any(attribute.is_ref() for attribute in attributes.values()):
        return None
    saturates, rounding = attributes.get("saturate"), attributes.get("round_mode")
    format_ = formats.of(to)
    narrow = format_.kind is Kind.FLOAT and format_.bits == 8  # other Casts heed neither
    return (
        found.get(value, value),
        to,
        not narrow or saturates is None or saturates.as_int() != 0,
        rounding.value if narrow and rounding is not None else "up",
    )
