"""A model in which each node can be switched between narrow, wide but for its weights, and wide.

Before::

    y = MatMul (x, w)

After::

    on = Gather (onnxcast.switches, 3)                 # bool, a graph input
    y = If (on) <
        then_branch = { x_low = round (x)  z = MatMul (x_low, w_low)  z_low = round (z) },
        else_branch = {
            light = Gather (onnxcast.switches, 8)
            z_off = If (light) <
                then_branch = { z = MatMul (x, w_low) },
                else_branch = { z = MatMul (x, w) }
            >
        }
    >

One session serves every choice of nodes.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.formats import FLOAT32
from onnxcast.graph.edit import Names, constant_of
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies
from onnxcast.planning import Decision, Group, PinLevel, Plan, Reason
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.copies import COPIED_BYTES, Copier, Decisions, positioned

__all__ = ["SWITCHES", "Switched"]

SWITCHES = "onnxcast.switches"
"""The graph input, bool with one element per switch."""

_COPIED_BYTES = COPIED_BYTES
"""Weights that need more room than this take the place of their originals, so that only activations
are switched."""


class Switched:
    """A copy of a model with switches for each node that a plan narrows.

    Nodes that only move data have none, as they round nothing by themselves. A node of a function
    has one for all calls; the copy has the function's body in place of each.

    Args:
        model: The model that the plans are for; it is not changed.
        narrow: What nodes do that are not pinned.
        light: What they do when they are pinned but for their weights; by default all is float32.

    Attributes:
        model: The copy, with one more input.
        nodes: The nodes of the original that have switches; they are known by their position.
        narrow: What each of them does if it is not pinned.
        light: What it does if it is pinned but for its weights, where that is not all float32.
        format: What most of them round to.
        fixed_weights: Whether weights are rounded whatever is pinned, for want of room.
    """

    def __init__(self, model: ir.Model, narrow: Plan, light: Plan | None = None) -> None:
        by_node = _by_node(narrow)
        self.light = {} if light is None else _by_node(light)
        self.narrow = {node: each for node, each in by_node.items() if _rounds(node, each)}
        self.nodes = list(self.narrow)
        formats = Counter(each.format for groups in by_node.values() for each in groups.values())
        self.format = max(formats, key=lambda each: formats[each], default=FLOAT32)
        self.model, copies = positioned(model, self.nodes)
        self._names = Names(self.model)
        self._types = ElementTypes(self.model)
        weights = self._light_constants(copies)
        self.fixed_weights = sum(weights.values()) > _COPIED_BYTES
        self._copier = Copier(
            self.model, self._names, weights if self.fixed_weights else (), _COPIED_BYTES
        )
        choosing = [k for k, node in enumerate(self.nodes) if self._has_choice(node)]
        self._lights = {k: len(self.nodes) + index for index, k in enumerate(choosing)}
        self._switches = ir.Value(name=SWITCHES, type=ir.TensorType(ir.DataType.BOOL))
        self._switches.shape = ir.Shape([len(self.nodes) + len(self._lights)])
        for copy, position in copies:
            self._switch(copy, position)
        self.model.graph.inputs.append(self._switches)
        self._drop_replaced_weights()

    def feed(
        self, pins: Mapping[int, PinLevel], others: PinLevel = PinLevel.NONE
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """What to give `SWITCHES`.

        Args:
            pins: How much of the nodes at some positions stays float32.
            others: How much of all other nodes does.
        """
        switches = np.zeros(len(self.nodes) + len(self._lights), np.bool_)
        for position in range(len(self.nodes)):
            level = pins.get(position, others)
            switches[position] = level is PinLevel.NONE or (
                level is PinLevel.WEIGHTS and not self.can_narrow(position)
            )
            if position in self._lights:
                switches[self._lights[position]] = level is PinLevel.WEIGHTS
        return switches

    def can_narrow(self, position: int) -> bool:
        """Whether a pin makes a difference to a node, even one that leaves its weights narrow."""
        node = self.nodes[position]
        return _essence(self.narrow[node]) != _essence(self.light.get(node, {}))

    def can_widen(self, position: int) -> bool:
        """Whether a node has weights that a pin may leave narrow or not."""
        return self.nodes[position] in self.light and not self.fixed_weights

    def _has_choice(self, node: ir.Node) -> bool:
        light = self.light.get(node)
        return (
            light is not None
            and not self.fixed_weights
            and _essence(light) != _essence(self.narrow[node])
        )

    def _light_constants(self, copies: Sequence[tuple[ir.Node, int]]) -> dict[ir.Value, int]:
        """The constants that stay narrow when their reader is pinned, with their bytes."""
        return {
            value: tensor.nbytes
            for copy, position in copies
            for decision in self.light.get(self.nodes[position], {}).values()
            for value in (copy.inputs[index] for index in decision.reads)
            if value is not None and (tensor := constant_of(value)) is not None
        }

    def _switch(self, copy: ir.Node, position: int) -> None:
        """Put a choice in place of a node of the copy."""
        graph, node = copy.graph, self.nodes[position]
        assert graph is not None
        light = self.light.get(node, {})
        if self.fixed_weights:
            off = self._branch(copy, light)
        elif position in self._lights:
            lighter, plainer = self._branch(copy, light), self._branch(copy, {})
            off = self._graph(self._choice(copy, self._lights[position], lighter, plainer))
        else:
            off = self._branch(copy, {})
        nodes = self._choice(copy, position, self._branch(copy, self.narrow[node]), off)
        graph.insert_before(copy, nodes)
        given = [value for value in copy.outputs if value.name]
        for old, new in zip(given, nodes[-1].outputs, strict=True):
            new.type, new.shape, name = self._types.of(old) or old.type, old.shape, old.name
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            old.name, new.name = self._names.fresh("replaced"), name
        graph.remove(copy, safe=True)

    def _choice(self, copy: ir.Node, switch: int, on: ir.Graph, off: ir.Graph) -> list[ir.Node]:
        """Nodes, in order, that compute one of two branches; the last gives the results."""
        index = ir.AttrTensor("value", ir.Tensor(np.array(switch)))
        position = self._named(ir.Node("", "Constant", [], [index]))
        chosen = self._named(ir.Node("", "Gather", [self._switches, position.outputs[0]]))
        branches = [ir.AttrGraph("then_branch", on), ir.AttrGraph("else_branch", off)]
        number = sum(bool(value.name) for value in copy.outputs)
        name = self._names.fresh("choice")
        choice = ir.Node("", "If", chosen.outputs, branches, num_outputs=number, name=name)
        for result, value in zip(choice.outputs, on.outputs, strict=True):
            result.name, result.type = self._names.fresh("chosen"), value.type
        return [position, chosen, choice]

    def _graph(self, nodes: list[ir.Node]) -> ir.Graph:
        """A branch that gives the results of the last of `nodes`."""
        name = self._names.fresh("branch")
        return ir.Graph([], list(nodes[-1].outputs), nodes=nodes, name=name)

    def _drop_replaced_weights(self) -> None:
        """Drop weights that nobody reads, now that rounded ones stand in their place."""
        initializers = self.model.graph.initializers
        for value, _ in self._copier.rounded:
            needed = value.uses() or value.is_graph_output() or value.is_graph_input()
            if not needed and initializers.get(value.name or "") is value:
                del initializers[value.name or ""]

    def _branch(self, node: ir.Node, groups: Decisions) -> ir.Graph:
        """A graph that computes `node` as `groups` say."""
        nodes, results = self._copier.copied(node, groups)
        return ir.Graph([], list(results.values()), nodes=nodes, name=self._names.fresh("branch"))

    def _named(self, node: ir.Node) -> ir.Node:
        node.name = self._names.fresh("switch")
        node.outputs[0].name = self._names.fresh("switch")
        return node


def _rounds(node: ir.Node, groups: Decisions) -> bool:
    """Whether `node` rounds by itself; data movement mostly does not."""
    inside = all(decision.gives for decision in groups.values())
    moves = has_meaning(node, Meaning.CARRIER) or bool(bodies(node))
    return not (moves and inside)


def _essence(groups: Decisions) -> list[Decision]:
    """What decisions do, without why."""
    return [
        dataclasses.replace(each, reason=Reason.REQUESTED, detail="", opset=None)
        for each in groups.values()
    ]


def _by_node(plan: Plan) -> dict[ir.Node, dict[Group, Decision]]:
    found: dict[ir.Node, dict[Group, Decision]] = {}
    for group, decision in plan.narrow():
        found.setdefault(group.node, {})[group] = decision
    return found
