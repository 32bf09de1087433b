"""What Casts cost between groups whose formats are free, as a network to be cut.

A Cast is paid once per value and direction, however many read it. A constant costs nothing to
convert, but a large one that is read in both formats is cast for one of them. There is one network
for a model: subgraphs read outer values, and control flow ties what they hand in and out. The side
of the source is float32.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of
from onnxcast.graph.fills import fill_value
from onnxcast.planning.copies import is_copied
from onnxcast.planning.groups import Group
from onnxcast.planning.min_cut import SINK, SOURCE, MinCut
from onnxcast.planning.prices import Prices
from onnxcast.planning.readers import Readers

__all__ = ["CastCut", "Cheapest", "Fixed"]


class Fixed(NamedTuple):
    """What groups around the free ones make and read in the narrow format.

    A Cast that the model has already counts too: folding removes it between narrow values.

    Attributes:
        results: What they give.
        reads: What they read, once for each operand.
        rounded: What they round to the format and read in float32, likewise.
        fills: What can be made in either format, at the same price.
    """

    results: set[ir.Value]
    reads: list[ir.Value]
    rounded: list[ir.Value]
    fills: set[ir.Value]


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
        readers: Who reads the values of the model.
    """

    def __init__(
        self,
        free: Sequence[Group],
        fixed: Fixed,
        narrow: Format,
        prices: Prices,
        readers: Readers,
    ) -> None:
        self._fixed = fixed
        self._rounded = set(fixed.rounded)
        self._narrow = narrow
        self._prices = prices
        self._cut = MinCut()
        self._ids = {group: self._cut.node() for group in free}
        self._by_result = {
            value: node for group, node in self._ids.items() for value in group.result_values()
        }
        self._counts = readers.counts
        # The nodes of those who read a value; whoever reads it wide in any case is not here.
        self._reads: dict[ir.Value, list[int]] = {}
        self._note_reads(fixed.reads, SINK)
        self._note_reads(fixed.rounded, SINK)
        for group, node in self._ids.items():
            if group.node not in readers.of_shapes:
                self._note_reads(group.operand_values(), node)
        self._fitting: dict[ir.Value, bool] = {}

    def _note_reads(self, values: Iterable[ir.Value], node: int) -> None:
        reads = self._reads
        for value in values:
            if value in reads:
                reads[value].append(node)
            else:
                reads[value] = [node]

    def tainted(self) -> set[Group]:
        """Groups that wide data reaches: results, inputs, constants that do not fit."""
        groups = dict(zip(self._ids.values(), self._ids, strict=True))
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
                for reader in filter(None, map(groups.get, self._reads.get(value, ()))):
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
        never_up = {self._ids[group] for group in tainted}
        made, given = self._by_result, self._fixed.results
        for value, producer in made.items():
            self._add_result(value, producer, may_rise=producer not in never_up)
        for value in given:
            if value not in made and not self._is_narrow_only(value):
                _, up = self._prices_left(value)
                self._pay_up(self.readers(value), SINK, up)
        for value in self._reads:
            if value not in made and value not in given:
                self._add_wide(value)

    def _is_narrow_only(self, value: ir.Value) -> bool:
        """Whether all who read `value`, made narrow, have it so: most, where little is free."""
        if value in self._rounded:
            return False
        reads = self._reads.get(value, [])
        return reads.count(SINK) == len(reads) == self._counts.get(value, 0)

    def charge(self, group: Group, price: int) -> None:
        """Let the cut pay if `group` is wide."""
        self._cut.edge(self._ids[group], SINK, price)

    def solve(self) -> Cheapest:
        """The cheapest cut, with as few wide groups as there can be."""
        side = self._cut.solve()
        wide = {group for group, node in self._ids.items() if node in side}
        return Cheapest(wide, self._cut.cost(side), self._cut.exact)

    def readers(self, value: ir.Value) -> set[int]:
        """The nodes of all who read `value`, but those that look at its shape only."""
        known = self._reads.get(value, ())
        found = set(known)
        if self._counts.get(value, 0) > len(known):
            found.add(SOURCE)
        return found

    def _prices_left(self, value: ir.Value) -> tuple[int, int]:
        """Pay for what is cast up in any case; return the prices of casting `value` down and up."""
        down, up = self._prices.of(value)
        if value in self._rounded:
            # Whoever reads it rounded and in float32 pays for the Cast up in any case.
            self._cut.edge(SOURCE, SINK, up)
            up = 0
        return down, up

    def _add_wide(self, value: ir.Value) -> None:
        """Add what it costs to read narrow what nobody makes so."""
        constant = constant_of(value)
        if constant is not None and is_copied(constant):
            return  # stored twice instead
        down, _ = self._prices_left(value)
        if constant is None and value not in self._fixed.fills:
            self._pay_down(self.readers(value), SOURCE, down)
        else:
            self._pay_copy(self.readers(value), down)

    def _add_result(self, value: ir.Value, producer: int, *, may_rise: bool) -> None:
        """Add what `value`, the result of a free group, costs, which may be cast up or must not."""
        readers, (down, up) = self.readers(value), self._prices_left(value)
        self._pay_down(readers, producer, down)
        if may_rise:
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


def _fits(value: ir.Value, narrow: Format) -> bool:
    """Whether `value` is a small constant or a fill that the format holds exactly."""
    tensor, producer = constant_of(value), value.producer()
    array = None if producer is None else fill_value(producer)
    if tensor is not None and tensor.size <= 1024 and tensor.dtype == ir.DataType.FLOAT:
        array = tensor.numpy()
    if array is None:
        return False
    return bool(np.array_equal(formats.round_to(array, narrow), array, equal_nan=True))
