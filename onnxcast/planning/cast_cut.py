"""What Casts cost between groups whose formats are free, as a network to be cut.

A Cast is paid once per value and direction, however many read it. A constant costs nothing to
convert, but a large one that is read in both formats is cast for one of them. There is one network
for a model: subgraphs read outer values, and control flow ties what they hand in and out. The side
of the source is float32.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of
from onnxcast.graph.fills import fill_value
from onnxcast.graph.ties import Exit
from onnxcast.planning.groups import Group
from onnxcast.planning.min_cut import SINK, SOURCE, MinCut
from onnxcast.planning.prices import Prices

__all__ = ["CastCut", "Cheapest", "Fixed", "Use"]

Use: TypeAlias = tuple[ir.Node, int] | Exit
"""An operand of a node, or an output of a body."""


class Fixed(NamedTuple):
    """What groups around the free ones make and read in the narrow format.

    A Cast that the model has already counts too: folding removes it between narrow values.

    Attributes:
        results: What they give.
        reads: Operands that they read.
        rounded: Operands that are rounded to the format and read in float32.
        fills: What can be made in either format, at the same price.
        shapes: Nodes that look at the shape of what they read, and at nothing else.
    """

    results: set[ir.Value]
    reads: set[tuple[ir.Node, int]]
    rounded: set[tuple[ir.Node, int]]
    fills: set[ir.Value]
    shapes: Collection[ir.Node]


class Cheapest(NamedTuple):
    """A cheapest cut.

    Attributes:
        wide: The groups that are wide.
        price: What it costs.
        exact: Whether it is known that none costs less.
    """

    wide: set[Group]
    price: int
    exact: bool


class CastCut:
    """The network of `free` groups.

    Args:
        free: Groups that may have either format: all that they read and give.
        fixed: What is decided.
        narrow: The narrow format.
        prices: The prices of Casts.
    """

    def __init__(self, free: Sequence[Group], fixed: Fixed, narrow: Format, prices: Prices) -> None:
        self._fixed = fixed
        self._narrow = narrow
        self._prices = prices
        self._cut = MinCut()
        self._ids = {group: self._cut.node() for group in free}
        self._by_result = {value: group for group in free for value in group.result_values()}
        self._by_use: dict[Use, Group] = {use: group for group in free for use in _uses(group)}
        # Who reads a value wide in any case is not here.
        self._nodes: dict[Use, int] = dict.fromkeys((*fixed.reads, *fixed.rounded), SINK)
        self._nodes.update((use, self._ids[group]) for use, group in self._by_use.items())
        self._slots = _Slots()
        self._fitting: dict[ir.Value, bool] = {}

    def tainted(self) -> set[Group]:
        """Groups that wide data reaches: results, inputs, constants that do not fit."""
        pending = [
            group
            for group in self._ids
            if any(
                value not in self._by_result and not self.is_narrow(value)
                for value in group.operand_values()
            )
        ]
        found = set(pending)
        while pending:
            for value in pending.pop().result_values():
                for reader in filter(None, map(self._by_use.get, self._uses(value))):
                    if reader not in found:
                        found.add(reader)
                        pending.append(reader)
        return found

    def is_narrow(self, value: ir.Value) -> bool:
        """Whether `value`, not of a free group, can be read narrow without loss."""
        if value in self._fixed.results:
            return True
        if value not in self._fitting:
            self._fitting[value] = _fits(value, self._narrow)
        return self._fitting[value]

    def add_casts(self, tainted: Collection[Group] = ()) -> None:
        """Let the cut pay for all Casts, those between fixed groups too.

        Args:
            tainted: Groups that no wide reader may read while they are narrow.
        """
        values = dict.fromkeys((*self._by_result, *self._fixed.results))
        values.update((each, None) for group in self._ids for each in group.operand_values())
        for node, index in (*self._fixed.reads, *self._fixed.rounded):
            value = node.inputs[index]
            assert value is not None
            values[value] = None
        for value in values:
            self._add(value, tainted)

    def charge(self, group: Group, price: int) -> None:
        """Let the cut pay if `group` is wide."""
        self._cut.edge(self._ids[group], SINK, price)

    def solve(self) -> Cheapest:
        """The cheapest cut, with as few wide groups as there can be."""
        side = self._cut.solve()
        wide = {group for group, node in self._ids.items() if node in side}
        return Cheapest(wide, self._cut.cost(side), self._cut.exact)

    def readers(self, value: ir.Value) -> set[int]:
        """The nodes of all who read `value`."""
        return self._readers(self._uses(value))

    def _readers(self, uses: Collection[Use]) -> set[int]:
        nodes = self._nodes
        return {nodes.get(use, SOURCE) for use in uses}

    def _uses(self, value: ir.Value) -> Collection[Use]:
        """The uses of `value` but those that look at its shape only."""
        uses: Collection[Use] = value.uses()
        if self._fixed.shapes:
            uses = [use for use in uses if use[0] not in self._fixed.shapes]
        return (*uses, *self._slots.of(value)) if value.is_graph_output() else uses

    def _add(self, value: ir.Value, tainted: Collection[Group]) -> None:
        prices = self._prices.of(value)
        if prices is None:
            return
        (down, up), uses = prices, self._uses(value)
        if not self._fixed.rounded.isdisjoint(uses):
            # Whoever reads it rounded and in float32 pays for the Cast up in any case.
            self._cut.edge(SOURCE, SINK, up)
            up = 0
        readers = self._readers(uses)
        group = self._by_result.get(value)
        if group is not None:
            self._add_result(self._ids[group], readers, down, None if group in tainted else up)
        elif value in self._fixed.results:
            self._pay_up(readers, SINK, up)
        elif value not in self._fixed.fills and constant_of(value) is None:
            self._pay_down(readers, SOURCE, down)
        else:
            self._pay_copy(readers, down)

    def _add_result(
        self, producer: int, readers: Collection[int], down: int, up: int | None
    ) -> None:
        """Add what the result of a free group costs; None forbids to cast it up."""
        self._pay_down(readers, producer, down)
        if up is not None:
            self._pay_up(readers, producer, up)
            return
        for reader in readers or (SOURCE,):  # nobody would read it narrow
            self._cut.forbid(reader, producer)

    def _pay_up(self, readers: Collection[int], producer: int, price: int) -> None:
        """Pay once if `producer` is narrow and any reader is wide."""
        if readers:
            self._cut.edge(self._any_wide(readers), producer, price)

    def _pay_down(self, readers: Collection[int], producer: int, price: int) -> None:
        """Pay once if `producer` is wide and any reader is narrow."""
        if readers:
            self._cut.edge(producer, self._any_narrow(readers), price)

    def _pay_copy(self, readers: Collection[int], price: int) -> None:
        """Pay once if some readers are narrow and others wide."""
        if len(readers) > 1:
            self._cut.edge(self._any_wide(readers), self._any_narrow(readers), price)

    def _any_wide(self, readers: Collection[int]) -> int:
        """A node that is wide if any of `readers` is."""
        if len(readers) == 1:
            return next(iter(readers))
        node = self._cut.node()
        for reader in readers:
            self._cut.forbid(reader, node)
        return node

    def _any_narrow(self, readers: Collection[int]) -> int:
        """A node that is narrow if any of `readers` is."""
        if len(readers) == 1:
            return next(iter(readers))
        node = self._cut.node()
        for reader in readers:
            self._cut.forbid(node, reader)
        return node


class _Slots:
    """Where values are among the outputs of their graphs."""

    def __init__(self) -> None:
        self._known: dict[ir.Graph, dict[ir.Value, list[Exit]]] = {}

    def of(self, value: ir.Value) -> list[Exit]:
        graph = value.graph
        assert graph is not None
        if graph not in self._known:
            slots: dict[ir.Value, list[Exit]] = {}
            for index, output in enumerate(graph.outputs):
                slots.setdefault(output, []).append((graph, index))
            self._known[graph] = slots
        return self._known[graph][value]


def _uses(group: Group) -> list[Use]:
    node = group.node
    return [*[(node, index) for index in group.operands], *group.exits]


def _fits(value: ir.Value, narrow: Format) -> bool:
    """Whether `value` is a small constant or a fill that the format holds exactly."""
    tensor, producer = constant_of(value), value.producer()
    array = None if producer is None else fill_value(producer)
    if tensor is not None and tensor.size <= 1024 and tensor.dtype == ir.DataType.FLOAT:
        array = tensor.numpy()
    if array is None:
        return False
    return bool(np.array_equal(formats.round_to(array, narrow), array, equal_nan=True))
