"""How far what a plan rounds at each node moves a model's outputs, estimated from one run.

Each node is computed on what it is fed in float32, more than once:

    own     rounded as planned: how far its results are off, relative to their size
    gain    with one operand rounded: how much larger its relative error is behind the node

Errors add up like those of independent random numbers, so a walk from the outputs back tells what
an error of each value does to them. That is right for small errors that do not meet again.
"""

import dataclasses
import math
import pathlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of
from onnxcast.graph.opsets import onnx_opset
from onnxcast.graph.ties import ties
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, main_nodes
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.copies import Copier, positioned
from onnxcast.verification.ranges import run_numbers
from onnxcast.verification.reductions import Reducer
from onnxcast.verification.rounding import FIRST_OPSET
from onnxcast.verification.session import Worker
from onnxcast.verification.switches import Switched
from onnxcast.verification.values import Feeds

__all__ = ["Estimates", "estimate"]


@dataclasses.dataclass(frozen=True)
class Estimates:
    """What nodes do to the outputs, by their position in `Switched.nodes`.

    Attributes:
        activations: How far outputs move if the node is not pinned, in shares of what passes.
        weights: How far they move if its weights alone are narrow.
        local: How far its own results are off, relative to their size.
    """

    activations: Sequence[float]
    weights: Sequence[float]
    local: Sequence[float]


def estimate(
    model: ir.Model,
    switched: Switched,
    limits: Mapping[str, float],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> Estimates:
    """Estimate what the nodes of `switched` do.

    Args:
        model: The model that it was made from; it is not changed.
        switched: Tells the nodes and what is rounded.
        limits: By output, the relative error that uses up what passes; inf if any does.
        feeds: The samples.
        worker: Runs an instrumented copy, once for each sample.
        folder: For the copy.

    Returns:
        Estimates; all 0 for a model before opset 9, which lacks the ops that a measurement needs.

    Raises:
        RuntimeFailure: The copy does not run.
    """
    if (onnx_opset(model) or 0) < FIRST_OPSET:
        nothing = [0.0] * len(switched.nodes)
        return Estimates(nothing, nothing, nothing)
    probes = _Probes(model, switched)
    names = {name: [name] for name in probes.rows}
    rows = run_numbers(probes.model, names, feeds, worker, folder)
    return probes.estimates({name: _relative(row) for name, row in rows.items()}, limits)


def _relative(rows: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float:
    """The relative error from rows of a size and a difference, over samples and calls."""
    size, difference = rows.sum(axis=0)
    if difference == 0:
        return 0.0
    return float(difference / size) if 0 < size < math.inf else math.inf


class _Probes:
    """A copy of a model with outputs that tell errors and gains.

    Attributes:
        model: The copy.
        rows: The names of its outputs.
    """

    def __init__(self, model: ir.Model, switched: Switched) -> None:
        self.model, self._copies = positioned(model, switched.nodes)
        self._switched = switched
        self._outputs = list(self.model.graph.outputs)
        nodes = list(main_nodes(self.model))
        self._types = ElementTypes(self.model)
        self._reducer = Reducer(self.model)
        self._copier = Copier(self.model, self._reducer.names)
        self.rows: list[str] = []
        self._own: list[tuple[int, ir.Value, str]] = []
        self._of_weights: list[tuple[int, ir.Value, str]] = []
        self._gains: dict[ir.Node, dict[ir.Value | None, tuple[str, list[str]]]] = {}
        self._noises: dict[ir.Value, tuple[ir.Value, str]] = {}
        for node, position in self._copies:
            self._add_own(node, position)
        for node in nodes:
            if self._is_measured(node):
                self._add_gains(node)

    def estimates(self, relative: Mapping[str, float], limits: Mapping[str, float]) -> Estimates:
        """What the nodes do, from the relative error that each row tells."""
        influence = self._influences(relative, limits)
        count = len(self._switched.nodes)
        activations, weights, local = ([0.0] * count for _ in range(3))
        for found, rows in ((activations, self._own), (weights, self._of_weights)):
            for position, value, name in rows:
                error, by = relative.get(name, 0.0), influence[value]
                found[position] += error**2 * by if by else 0.0
        for position, _, name in self._own:
            local[position] = max(local[position], relative.get(name, 0.0))
        return Estimates(
            [math.sqrt(each) for each in activations], [math.sqrt(each) for each in weights], local
        )

    def _add_own(self, node: ir.Node, position: int) -> None:
        """Measure what the node rounds, and what its weights alone do."""
        original, graph = self._switched.nodes[position], node.graph
        if graph is None or not self._reaches(node):
            return
        plain = {index: value for index, value in enumerate(node.outputs) if value.name}
        light = self._switched.light.get(original)
        if light is not None:
            nodes, results = self._copier.copied(node, light)
            graph.extend(nodes)
            self._of_weights += self._distances(position, node, plain, results)
        else:
            results = plain
        nodes, rounded = self._copier.copied(node, self._switched.narrow[original])
        graph.extend(nodes)
        self._own += self._distances(position, node, results, rounded)

    def _distances(
        self,
        position: int,
        node: ir.Node,
        wanted: Mapping[int, ir.Value],
        found: Mapping[int, ir.Value],
    ) -> list[tuple[int, ir.Value, str]]:
        return [
            (position, node.outputs[index], self._distance(wanted[index], value))
            for index, value in found.items()
            if self._types.dtype(node.outputs[index]) == ir.DataType.FLOAT
        ]

    def _is_measured(self, node: ir.Node) -> bool:
        """Whether a node may make errors larger or smaller; what only moves values does not."""
        return (
            self._reaches(node)
            and not has_meaning(node, Meaning.CARRIER)
            and not bodies(node)
            and any(self._is_float(value) for value in node.outputs)
        )

    def _add_gains(self, node: ir.Node) -> None:
        format_ = self._switched.format
        assert node.graph is not None
        for value in dict.fromkeys(node.inputs):
            if value is None or not self._is_float(value) or constant_of(value) is not None:
                continue
            if value.graph is not node.graph:
                continue  # what stands behind the node cannot be seen in front of it
            noisy, noise = self._noise(value, format_)
            operands = [noisy if each is value else each for each in node.inputs]
            copy = self._copier.plain(node, operands)
            node.graph.append(copy)
            rows = [
                self._distance(result, copied)
                for result, copied in zip(node.outputs, copy.outputs, strict=True)
                if self._is_float(result)
            ]
            self._gains.setdefault(node, {})[value] = noise, rows

    def _noise(self, value: ir.Value, format_: Format) -> tuple[ir.Value, str]:
        """`value` rounded, and the row that tells how far that is off."""
        if value not in self._noises:
            nodes: list[ir.Node] = []
            noisy = self._copier.round(value, format_, nodes)
            assert isinstance(value.graph, ir.Graph)
            value.graph.extend(nodes)
            self._noises[value] = noisy, self._distance(value, noisy)
        return self._noises[value]

    def _distance(self, value: ir.Value, other: ir.Value) -> str:
        self.rows.append(self._reducer.distance(value, other))
        return self.rows[-1]

    def _reaches(self, node: ir.Node) -> bool:
        return all(self._reducer.reaches(value) for value in node.outputs)

    def _is_float(self, value: ir.Value) -> bool:
        return bool(value.name) and self._types.dtype(value) == ir.DataType.FLOAT

    def _influences(
        self, relative: Mapping[str, float], limits: Mapping[str, float]
    ) -> dict[ir.Value | None, float]:
        """The square of what a relative error of 1 in each value does to the outputs."""
        found: dict[ir.Value | None, float] = defaultdict(float)
        for value in self._outputs:
            found[value] += max(limits.get(value.name or "", 1.0), 1e-12) ** -2
        self._walk_back(self.model.graph, found, relative)
        return found

    def _walk_back(
        self, graph: ir.Graph, found: dict[ir.Value | None, float], relative: Mapping[str, float]
    ) -> None:
        """Take what is found of the results of nodes to their operands, the last node first."""
        for node in reversed(graph):
            behind = sum(found[value] for value in node.outputs)
            inner = bodies(node) if behind else []
            for body in inner:
                # What is carried from step to step may come out in any result.
                for value in body.outputs:
                    found[value] += behind
                self._walk_back(body, found, relative)
            for tie in ties(node) if inner else ():
                for operand in (node.inputs[index] for index in tie.operands):
                    found[operand] += sum(found[entry] for entry in tie.entries)
            for operand in {*node.inputs} if behind and not inner else ():
                gain = self._gain(node, operand, relative)
                found[operand] += behind * gain * gain if gain else 0.0

    def _gain(
        self, node: ir.Node, operand: ir.Value | None, relative: Mapping[str, float]
    ) -> float:
        noise, rows = self._gains.get(node, {}).get(operand, ("", []))
        before = relative.get(noise, 0.0)
        after = max((relative.get(row, 0.0) for row in rows), default=0.0)
        return after / before if 0 < before < math.inf and after < math.inf else 1.0
