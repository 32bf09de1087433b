"""A model as plain records to draw: nodes, what they read, the format of each, what Casts cost."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, label, op_name
from onnxcast.planning import CastPrice, cast_prices, marked_format
from onnxcast.targets import Target

__all__ = ["INPUT", "OUTPUT", "DrawnNode", "draw"]

INPUT, OUTPUT = "input", "output"
"""In place of an op: what the graph takes and gives."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnNode:
    """A node of any scope, or a graph input or output.

    Attributes:
        name: How messages call the node; of an input or output, its name.
        op: Its op; `INPUT` or `OUTPUT` for what is none.
        scope: What it is inside of, outermost first: nodes with subgraphs, or a function.
        format: That of its first result, "" if that is no tensor or of an unknown type.
        reads: The numbers of the nodes whose results it reads.
        gives: The names of its results.
        cast: What it costs, if it is a Cast.
    """

    name: str
    op: str
    scope: tuple[str, ...]
    format: str
    reads: tuple[int, ...] = ()
    gives: tuple[str, ...] = ()
    cast: CastPrice | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts, strings and numbers; without what is empty."""
        found = {
            "node": self.name,
            "op": self.op,
            "scope": list(self.scope),
            "format": self.format,
            "reads": list(self.reads),
            "gives": list(self.gives),
            "cast": None if self.cast is None else self.cast._asdict(),
        }
        return {name: value for name, value in found.items() if value}


def draw(model: ir.Model, target: Target) -> list[DrawnNode]:
    """The nodes of `model`, inputs first, each before its readers, with what Casts cost."""
    drawing = _Drawing(model, dict(cast_prices(model, target)))
    for value in model.graph.inputs:
        if not value.is_initializer():
            drawing.add(value.name or "", INPUT, (), [], [value])
    drawing.add_graph(model.graph, ())
    for function in model.functions.values():
        drawing.add_graph(function.graph, (f"{function.domain}.{function.name}",))
    for value in model.graph.outputs:
        drawing.add(value.name or "", OUTPUT, (), [value], [])
    return drawing.nodes


class _Drawing:
    def __init__(self, model: ir.Model, prices: Mapping[ir.Node, CastPrice]) -> None:
        self.nodes: list[DrawnNode] = []
        self._types = ElementTypes(model, in_functions=True)
        self._prices = prices
        self._makers: dict[ir.Value, int] = {}

    def add_graph(self, graph: ir.Graph, scope: tuple[str, ...]) -> None:
        """Add the nodes of `graph`, each followed by those inside it, without recursion."""
        pending = [(iter(graph), scope)]
        while pending:
            nodes, inside = pending[-1]
            node = next(nodes, None)
            if node is None:
                pending.pop()
                continue
            self.add_node(node, inside)
            held = bodies(node) if node.attributes else []
            pending.extend((iter(body), (*inside, label(node))) for body in reversed(held))

    def add_node(self, node: ir.Node, scope: tuple[str, ...]) -> None:
        """Add one node of the model."""
        read = [value for value in node.inputs if value is not None]
        self.add(label(node), op_name(node), scope, read, list(node.outputs), node)

    def add(
        self,
        name: str,
        op: str,
        scope: tuple[str, ...],
        read: list[ir.Value],
        given: list[ir.Value],
        node: ir.Node | None = None,
    ) -> None:
        """Add a node, an input or an output."""
        makers = (self._makers[value] for value in read if value in self._makers)
        number = len(self.nodes)
        self.nodes.append(
            DrawnNode(
                name=name,
                op=op,
                scope=scope,
                format=self._format(given or read),
                reads=tuple(dict.fromkeys(makers)),
                gives=tuple(value.name for value in given if value.name),
                cast=None if node is None else self._prices.get(node),
            )
        )
        self._makers.update((value, number) for value in given)

    def _format(self, values: list[ir.Value]) -> str:
        if not values:
            return ""
        marked, dtype = marked_format(values[0]), self._types.dtype(values[0])
        if marked is not None:
            return marked.name
        return "" if dtype is None else formats.of(dtype).name
