"""Rounding of what is marked to have a format without an ONNX type.

Before::

    y = MatMul (x, w)              # onnxcast.operands = "0:float32r 1:float32r"

After::

    rounded = onnxcast.rounding.RoundFloat32r11 (x)
    rounded_1 = onnxcast.rounding.RoundFloat32r11 (w)
    y = MatMul (rounded, rounded_1)

A marked result hands its name to its rounded copy, so that all readers see that.
"""

from collections.abc import Iterator

import onnx_ir as ir

from onnxcast.formats import Format
from onnxcast.graph.edit import Names
from onnxcast.graph.walk import main_graphs, model_nodes
from onnxcast.planning import forget_marks, marked_format, marked_operands
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.rounding import Roundings

__all__ = ["marked_formats", "round_marked"]


def marked_formats(model: ir.Model) -> Iterator[Format]:
    """The formats of all marks of `model`."""
    for node in model_nodes(model):
        yield from marked_operands(node).values()
        yield from (f for value in node.outputs if (f := marked_format(value)) is not None)


def round_marked(model: ir.Model, names: Names) -> int:
    """Round what is marked in `model`, which has no functions, and drop the marks.

    Returns:
        How many values are rounded.
    """
    marker = _Marker(model, names)
    for graph in list(main_graphs(model)):
        for node in list(graph):
            marker.round_operands(node, graph)
            marker.round_results(node, graph)
    forget_marks(model)
    return marker.rounded


class _Marker:
    def __init__(self, model: ir.Model, names: Names) -> None:
        self.rounded = 0
        self._names = names
        self._roundings = Roundings(model, names)
        # Rounded copies, one for each graph that reads one, and values that are rounded already.
        self._copies: dict[tuple[ir.Graph, ir.Value, Format], ir.Value] = {}
        self._done: dict[ir.Value, Format] = {}

    def round_operands(self, node: ir.Node, graph: ir.Graph) -> None:
        for index, format_ in marked_operands(node).items():
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is None or self._done.get(value) == format_:
                continue
            key = (graph, value, format_)
            if key not in self._copies:
                nodes = self._roundings.nodes(value, format_)
                graph.insert_before(node, nodes)
                self._copies[key] = nodes[-1].outputs[0]
                self.rounded += 1
            node.replace_input_with(index, self._copies[key])

    def round_results(self, node: ir.Node, graph: ir.Graph) -> None:
        moved = has_meaning(node, Meaning.CARRIER)
        for value in node.outputs:
            format_ = marked_format(value)
            if format_ is None or not value.name:
                continue
            operands = [each for each in node.inputs if each is not None]
            if moved and operands and self._done.get(operands[0]) == format_:
                self._done[value] = format_
                continue
            self._round_result(value, format_, graph)

    def _round_result(self, value: ir.Value, format_: Format, graph: ir.Graph) -> None:
        producer, readers = value.producer(), value.uses()
        assert producer is not None
        nodes = self._roundings.nodes(value, format_)
        copy = nodes[-1].outputs[0]
        copy.type, copy.shape = value.type, value.shape
        for reader, index in readers:
            reader.replace_input_with(index, copy)
        copy.name, value.name = value.name, self._names.fresh(f"{value.name}_raw")
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = copy
        graph.insert_after(producer, nodes)
        self._done[copy] = format_
        self.rounded += 1
