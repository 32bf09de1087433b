"""Which data movement happens in the narrow format: that which needs the cheapest Casts.

Formats of computing nodes are fixed; carriers (what moves elements without looking at them) are
free. A Cast is paid once per value and direction, however many read it. What costs nothing either
way is narrow. A wide reader never sees data that was rounded only for a carrier's sake: a carrier
that any wide producer reaches through carriers is *tainted*, and if it is narrow, so are all its
readers. With fixed producers all this is pairwise, so that a minimum cut is exact.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of
from onnxcast.planning.groups import Group
from onnxcast.planning.min_cut import SINK, SOURCE, MinCut
from onnxcast.policy import Meaning, has_meaning

__all__ = ["Carried", "Price", "place_carriers"]

Price = Callable[[ir.Value], tuple[int, int]]
"""What it costs to cast a value down, and to cast it up again."""

_Use = tuple[ir.Node, int]


class Carried(NamedTuple):
    """The carriers that are narrow, and those that are wide although they need not be.

    Attributes:
        behind: Narrow carriers of nothing but narrow data, and shape readers of such.
        ahead: Narrow carriers of wide data, which only narrow readers see.
        cheaper: Wide carriers that could be narrow, at a higher price.
    """

    behind: set[Group]
    ahead: set[Group]
    cheaper: set[Group]


def place_carriers(
    carriers: Sequence[Group],
    results: Iterable[ir.Value],
    reads: Iterable[_Use],
    rounded: Iterable[_Use],
    narrow: Format,
    price: Price,
) -> Carried:
    """Choose the carriers that move narrow values.

    Args:
        carriers: Groups of carriers and of shape readers that may be narrow, in topological order.
        results: What computing groups give in the narrow format.
        reads: Operands that computing groups read in the narrow format.
        rounded: Operands that are rounded to the format and read in float32.
        narrow: The format.
        price: The price of Casts.
    """
    moving = [group for group in carriers if group.results]
    network = _Network(moving, set(results), set(reads), set(rounded), narrow, price)
    wide = network.wide()
    values = set(network.narrow_results)
    behind, ahead, cheaper = set[Group](), set[Group](), set[Group]()
    for group in moving:
        if group in wide:
            cheaper.update([] if network.must_be_wide(group) else [group])
            continue
        (ahead if group in network.tainted else behind).add(group)
        values.update(group.result_values())
    for group in carriers:
        if not group.results and all(value in values for value in group.operand_values()):
            behind.add(group)
    return Carried(behind, ahead, cheaper)


class _Network:
    def __init__(
        self,
        moving: Sequence[Group],
        results: set[ir.Value],
        reads: set[_Use],
        rounded: set[_Use],
        narrow: Format,
        price: Price,
    ) -> None:
        self.narrow_results = results
        self._moving = moving
        self._reads = reads
        self._rounded = rounded
        self._narrow = narrow
        self._price = price
        self._by_result = {value: group for group in moving for value in group.result_values()}
        self._fitting: dict[ir.Value, bool] = {}
        self._by_use = {(group.node, i): group for group in moving for i in group.operands}
        self.tainted = self._tainted()
        self._cut = MinCut()
        self._ids = {group: self._cut.node() for group in moving}

    def _tainted(self) -> set[Group]:
        """Carriers that wide data reaches: results, inputs, constants that do not fit."""
        found: set[Group] = set()
        for group in self._moving:
            for value in group.operand_values():
                source = self._by_result.get(value)
                known = value in self.narrow_results or self._fits(value)
                if source in found if source is not None else not known:
                    found.add(group)
        return found

    def wide(self) -> set[Group]:
        """The carriers on the wide side of the cheapest cut."""
        for value in self._values():
            self._add(value)
        side = self._cut.solve()
        return {group for group, node in self._ids.items() if node in side}

    def must_be_wide(self, group: Group) -> bool:
        """Whether `group`, which is wide, may not be narrow, or nobody would have it so."""
        if group not in self.tainted:
            return False
        readers = {self._reader(use) for value in group.result_values() for use in _uses(value)}
        outputs = any(value.is_graph_output() for value in group.result_values())
        return outputs or SOURCE in readers or not readers

    def _values(self) -> Iterable[ir.Value]:
        moved = (value for group in self._moving for value in group.operand_values())
        return dict.fromkeys((*moved, *self._by_result))

    def _add(self, value: ir.Value) -> None:
        """Add the price of the Casts of `value`, the source's side being the wide one."""
        group = self._by_result.get(value)
        producer = self._producer(value, group)
        readers = {self._reader(use) for use in _uses(value)}
        readers.update([SOURCE] if value.is_graph_output() else [])
        down, up = self._price(value)
        if producer is not None and self._is_rounded(value):
            up = 0  # whoever reads it rounded and in float32 has paid for that already
        if constant_of(value) is not None:
            down = down if SOURCE in readers else 0  # a second copy beside the wide one
        if group in self.tainted:
            for reader in readers or (SOURCE,):  # nobody would read it narrow
                self._cut.forbid(reader, self._ids[group])
        elif producer not in (None, SOURCE):
            self._pay(readers, producer, up, upwards=True)
        if producer not in (None, SINK):
            self._pay(readers, producer, down, upwards=False)

    def _pay(
        self, readers: Collection[int], producer: int | None, price: int, *, upwards: bool
    ) -> None:
        """Pay once if `producer` is narrow and any reader wide, or, downwards, the reverse."""
        assert producer is not None
        if len(readers) == 1:
            (through,) = readers
        else:
            through = self._cut.node()
            for reader in readers:
                ends = (reader, through) if upwards else (through, reader)
                self._cut.forbid(*ends)
        ends = (through, producer) if upwards else (producer, through)
        self._cut.edge(*ends, price)

    def _producer(self, value: ir.Value, group: Group | None) -> int | None:
        """The node that decides the format of `value`; None if it has both."""
        if group is not None:
            return self._ids[group]
        if value in self.narrow_results:
            return SINK
        return None if self._fits(value) else SOURCE

    def _reader(self, use: _Use) -> int:
        if use in self._by_use:
            return self._ids[self._by_use[use]]
        return SINK if use in self._reads or use in self._rounded else SOURCE

    def _is_rounded(self, value: ir.Value) -> bool:
        return any(use in self._rounded for use in _uses(value))

    def _fits(self, value: ir.Value) -> bool:
        if value not in self._fitting:
            self._fitting[value] = _fits(value, self._narrow)
        return self._fitting[value]


def _fits(value: ir.Value, narrow: Format) -> bool:
    """Whether `value` is a small constant that the format holds exactly."""
    tensor = constant_of(value)
    if tensor is None or tensor.size > 1024 or tensor.dtype != ir.DataType.FLOAT:
        return False
    array = tensor.numpy()
    return bool(np.array_equal(formats.round_to(array, narrow), array, equal_nan=True))


def _uses(value: ir.Value) -> Iterator[_Use]:
    """The uses of `value` but those that look at its shape only."""
    for node, index in value.uses():
        if not has_meaning(node, Meaning.METADATA):
            yield node, index
