"""Copies of a model's nodes that read and give rounded values, where the model stays float32."""

import math
from collections.abc import Container, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import Names, constant_of
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_nodes, model_graphs
from onnxcast.planning import Decision, Group
from onnxcast.verification.rounding import Roundings
from onnxcast.verification.twin import inlined

__all__ = ["COPIED_BYTES", "Copier", "Decisions", "positioned"]

Decisions = Mapping[Group, Decision]
"""What the groups of one node get."""

COPIED_BYTES = 2**29
"""Room for rounded copies of constants."""

_POSITION = "onnxcast.position"
"""Key in metadata_props of the copy: the position of a node, kept when functions are inlined."""


def positioned(
    model: ir.Model, nodes: Sequence[ir.Node]
) -> tuple[ir.Model, list[tuple[ir.Node, int]]]:
    """A copy of `model` with the bodies of functions in place of calls.

    Returns:
        The copy, and what in it comes from `nodes` of the original, with their positions.
    """
    copy = model.clone()
    positions = {node: str(position) for position, node in enumerate(nodes)}
    for graph, other in zip(model_graphs(model), model_graphs(copy), strict=True):
        for node, twin in zip(graph, other, strict=True):
            twin.metadata_props.pop(_POSITION, None)  # in a file it means nothing
            if node in positions:
                twin.metadata_props[_POSITION] = positions[node]
    copy = inlined(copy) if copy.functions else copy
    return copy, [
        (node, int(node.metadata_props.pop(_POSITION)))
        for node in main_nodes(copy)
        if _POSITION in node.metadata_props
    ]


class Copier:
    """Copies nodes of one model; the copies are in no graph yet.

    Args:
        model: It gets rounded copies of its constants.
        names: Its names.
        always: Constants of which there are rounded copies whatever room they take.
        room: Bytes for rounded copies of others; what finds no room is rounded in each run.

    Attributes:
        rounded: The copies of constants.
    """

    def __init__(
        self,
        model: ir.Model,
        names: Names,
        always: Container[ir.Value] = (),
        room: int = COPIED_BYTES,
    ) -> None:
        self._model = model
        self._names = names
        self._always = always
        self._roundings = Roundings(model, names)
        self._types = ElementTypes(model)
        self._room = room
        self.rounded: dict[tuple[ir.Value, Format], ir.Value] = {}

    def copied(self, node: ir.Node, groups: Decisions) -> tuple[list[ir.Node], dict[int, ir.Value]]:
        """Nodes, in order, that compute `node` as `groups` say, and its results that have names."""
        nodes: list[ir.Node] = []
        operands = list(node.inputs)
        for decision in groups.values():
            for index in decision.reads:
                value = operands[index]
                assert value is not None
                operands[index] = self.round(value, decision.read_in(index), nodes)
        copy = self.plain(node, operands)
        nodes.append(copy)
        results = {index: value for index, value in enumerate(copy.outputs) if value.name}
        for group, decision in groups.items():
            for index in group.results if decision.gives else ():
                extra = self._roundings.nodes(results[index], decision.format)
                nodes.extend(extra)
                results[index] = extra[-1].outputs[0]
        for value in results.values():
            value.type = value.type or ir.TensorType(ir.DataType.FLOAT)
        return nodes, results

    def round(self, value: ir.Value, format_: Format, nodes: list[ir.Node]) -> ir.Value:
        """`value` rounded: a constant beforehand as far as there is room, another in `nodes`."""
        if (value, format_) in self.rounded:
            return self.rounded[value, format_]
        tensor = constant_of(value)
        room = math.inf if value in self._always else self._room
        if tensor is None or tensor.nbytes > room or self._model.ir_version < 4:
            extra = self._roundings.nodes(value, format_)
            nodes.extend(extra)
            return extra[-1].outputs[0]
        self._room -= tensor.nbytes
        array = formats.round_to(np.asarray(tensor.numpy(), np.float32), format_)
        name = self._names.fresh("rounded_constant")
        copy = ir.Value(name=name, const_value=ir.Tensor(array, name=name))
        copy.type, copy.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(array.shape)
        self._model.graph.register_initializer(copy)
        self.rounded[value, format_] = copy
        return copy

    def plain(self, node: ir.Node, operands: Sequence[ir.Value | None]) -> ir.Node:
        """`node` with other operands."""
        copy = ir.Node(
            node.domain,
            node.op_type,
            operands,
            node.attributes.values(),
            num_outputs=len(node.outputs),
            name=self._names.fresh("copy"),
        )
        for value, original in zip(copy.outputs, node.outputs, strict=True):
            value.name = self._names.fresh("result") if original.name else ""
            value.type = self._types.of(original)
        return copy
