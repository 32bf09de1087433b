"""What the Casts of a model cost on a target: conversions, and bytes that these write."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.edit import cast_target, casts_among
from onnxcast.graph.shapes import Shapes, bytes_of
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import model_nodes
from onnxcast.planning.routes import Route, Routes
from onnxcast.targets import Target

__all__ = ["CastCosts", "CastPrice", "cast_costs", "cast_prices"]


class CastCosts(NamedTuple):
    """Totals over all Casts of a model.

    Attributes:
        casts: How many there are.
        hops: Conversions that the target takes for them; one where it has none, or no table.
        bytes: What these write; a dimension that is not known counts 1.
    """

    casts: int
    hops: int
    bytes: int


class CastPrice(NamedTuple):
    """What one Cast costs, in the units of `CastCosts`."""

    hops: int
    bytes: int


def cast_costs(
    model: ir.Model,
    target: Target,
    shapes: Shapes | None = None,
    nodes: Iterable[ir.Node] | None = None,
    types: ElementTypes | None = None,
) -> CastCosts:
    """The costs of the Casts of `model` on `target`.

    Args:
        model: The model.
        target: Prices Casts.
        shapes: Of the model; may be those before Casts were added.
        nodes: All nodes of the model that may be Casts, if they are at hand.
        types: Of the model, if they are known; of what is in functions, too.
    """
    prices = [price for _, price in cast_prices(model, target, shapes, nodes, types)]
    return CastCosts(len(prices), sum(each.hops for each in prices), sum(p.bytes for p in prices))


def cast_prices(
    model: ir.Model,
    target: Target,
    shapes: Shapes | None = None,
    nodes: Iterable[ir.Node] | None = None,
    types: ElementTypes | None = None,
) -> Iterator[tuple[ir.Node, CastPrice]]:
    """The Casts of `model`, each with what it costs on `target`; arguments as for `cast_costs`."""
    casts = casts_among(model_nodes(model) if nodes is None else nodes)
    shapes, routes = shapes or Shapes(model), None
    if target.casts is not None and casts:
        types = types or ElementTypes(model, in_functions=True)
        routes = Routes(target, types, shapes)
    for node in casts:
        route = None if routes is None else routes.of(node)
        if isinstance(route, Route):
            yield node, CastPrice(route.chain.hops, route.bytes)
        else:
            yield node, CastPrice(1, _written(node, shapes))


def _written(cast: ir.Node, shapes: Shapes) -> int:
    """Bytes that one conversion writes for `cast`."""
    to, operand = cast_target(cast), cast.inputs[0]
    assert to is not None
    count = 1 if operand is None else shapes.elements(operand)
    return bytes_of(count, formats.of(to).bits)
