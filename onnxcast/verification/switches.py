"""A model in which each node can be switched between what two plans make of it.

Before::

    y = MatMul (x, w)

After::

    on = Gather (onnxcast.switches, 3)                 # bool, a graph input
    y = If (on) <
        then_branch = { x_low = round (x)  z = MatMul (x_low, w_low)  z_low = round (z) },
        else_branch = { z = MatMul (x, w) }
    >

One session serves every choice of nodes.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import Names, constant_of
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, main_graphs
from onnxcast.planning import Decision, Group, Plan
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.rounding import Roundings

__all__ = ["SWITCHES", "Switched"]

_Decisions = Mapping[Group, Decision]

SWITCHES = "onnxcast.switches"
"""The graph input, bool with one element per node that can be switched."""

_COPIED_BYTES = 2**29
"""Rounded copies of constants are made up to this many bytes; others are rounded in each run."""


class Switched:
    """A copy of a model with a switch for each node that two plans treat differently.

    Nodes that only move data have none, as they round nothing by themselves, and neither have those
    of function bodies, which cannot see the switches.

    Args:
        model: The model that the plans are for; it is not changed.
        on: What a node does when its switch is on.
        off: What it does when that is off; by default all stays float32.

    Attributes:
        model: The copy, with one more input.
        nodes: The nodes of the original that have a switch, in the order of the switches.
    """

    def __init__(self, model: ir.Model, on: Plan, off: Plan | None = None) -> None:
        self.model = model.clone()
        self.nodes: list[ir.Node] = []
        self._names = Names(self.model)
        self._roundings = Roundings(self.model, self._names)
        self._room = _COPIED_BYTES
        self._copies: dict[tuple[ir.Value, Format], ir.Value] = {}
        self._switches = ir.Value(name=SWITCHES, type=ir.TensorType(ir.DataType.BOOL))
        self._types = ElementTypes(self.model)
        twins = {
            node: twin
            for graph, copy in zip(main_graphs(model), main_graphs(self.model), strict=True)
            for node, twin in zip(graph, copy, strict=True)
        }
        before = {} if off is None else _by_node(off)
        for node, groups in _by_node(on).items():
            if node in twins and _rounds(node, groups):
                self._switch(twins[node], groups, before.get(node, {}))
                self.nodes.append(node)
        self._switches.shape = ir.Shape([len(self.nodes)])
        self.model.graph.inputs.append(self._switches)

    def feed(self, on: Collection[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """What to give `SWITCHES` so that only the nodes of these positions round."""
        switches = np.zeros(len(self.nodes), np.bool_)
        switches[list(on)] = True
        return switches

    def _switch(self, node: ir.Node, on: _Decisions, off: _Decisions) -> None:
        graph = node.graph
        assert graph is not None
        index = ir.Tensor(np.array(len(self.nodes)))
        position = self._named(ir.Node("", "Constant", [], [ir.AttrTensor("value", index)]))
        switch = self._named(ir.Node("", "Gather", [self._switches, position.outputs[0]]))
        given = [value for value in node.outputs if value.name]
        choice = ir.Node(
            "",
            "If",
            [switch.outputs[0]],
            [
                ir.AttrGraph("then_branch", self._branch(node, on)),
                ir.AttrGraph("else_branch", self._branch(node, off)),
            ],
            num_outputs=len(given),
            name=self._names.fresh("choice"),
        )
        graph.insert_before(node, [position, switch, choice])
        for old, new in zip(given, choice.outputs, strict=True):
            new.type, new.shape, name = self._types.of(old) or old.type, old.shape, old.name
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            old.name, new.name = self._names.fresh("replaced"), name
        graph.remove(node, safe=True)

    def _branch(self, node: ir.Node, groups: _Decisions) -> ir.Graph:
        """A graph that computes `node` as `groups` say."""
        nodes: list[ir.Node] = []
        operands = list(node.inputs)
        for decision in groups.values():
            for index in decision.reads:
                value = operands[index]
                assert value is not None
                operands[index] = self._round(value, decision.read_in(index), nodes)
        copy = self._copy(node, operands)
        nodes.append(copy)
        results = {index: value for index, value in enumerate(copy.outputs) if value.name}
        for group, decision in groups.items():
            for index in group.results if decision.gives else ():
                extra = self._roundings.nodes(results[index], decision.format)
                nodes.extend(extra)
                results[index] = extra[-1].outputs[0]
        for value in results.values():
            value.type = value.type or ir.TensorType(ir.DataType.FLOAT)
        return ir.Graph([], list(results.values()), nodes=nodes, name=self._names.fresh("branch"))

    def _round(self, value: ir.Value, format_: Format, nodes: list[ir.Node]) -> ir.Value:
        """`value` rounded: a constant beforehand as far as there is room, another in `nodes`."""
        if (value, format_) in self._copies:
            return self._copies[value, format_]
        tensor = constant_of(value)
        top = self.model.graph
        if tensor is None or tensor.nbytes > self._room or self.model.ir_version < 4:
            extra = self._roundings.nodes(value, format_)
            nodes.extend(extra)
            return extra[-1].outputs[0]
        self._room -= tensor.nbytes
        array = formats.round_to(np.asarray(tensor.numpy(), np.float32), format_)
        name = self._names.fresh("rounded_constant")
        copy = ir.Value(name=name, const_value=ir.Tensor(array, name=name))
        copy.type, copy.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(array.shape)
        top.register_initializer(copy)
        self._copies[value, format_] = copy
        return copy

    def _copy(self, node: ir.Node, operands: Sequence[ir.Value | None]) -> ir.Node:
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

    def _named(self, node: ir.Node) -> ir.Node:
        node.name = self._names.fresh("switch")
        node.outputs[0].name = self._names.fresh("switch")
        return node


def _rounds(node: ir.Node, groups: _Decisions) -> bool:
    """Whether `node` rounds by itself; data movement mostly does not."""
    inside = all(decision.gives for decision in groups.values())
    moves = has_meaning(node, Meaning.CARRIER) or next(bodies(node), None) is not None
    return not (moves and inside)


def _by_node(plan: Plan) -> dict[ir.Node, dict[Group, Decision]]:
    found: dict[ir.Node, dict[Group, Decision]] = {}
    for group, decision in plan.narrow():
        found.setdefault(group.node, {})[group] = decision
    return found
