"""Minimum cuts of networks with non-negative integer capacities, by scipy's maximum flow."""

import math
from collections.abc import Collection

import numpy as np

__all__ = ["SINK", "SOURCE", "MinCut"]

SOURCE, SINK = 0, 1

_LARGEST = 2**31 - 1
"""Capacities and flows of scipy are int32."""


class MinCut:
    """A network to be cut into the side of the source and the side of the sink.

    Attributes:
        exact: Whether `solve` used the capacities as they are. Where their sum is beyond 32 bits
            they are scaled down, and the cut is a minimum of the rounded ones.
    """

    def __init__(self) -> None:
        self.exact = True
        self._count = 2
        self._always = 0
        self._finite: dict[tuple[int, int], int] = {}
        self._infinite: set[tuple[int, int]] = set()

    def node(self) -> int:
        """A new node."""
        self._count += 1
        return self._count - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        """Let it cost `capacity` that `start` is on the source's side and `end` on the sink's.

        Edges between the same nodes add up.
        """
        if (start, end) == (SOURCE, SINK):
            self._always += capacity
        elif start != end and capacity:
            key = start, end
            self._finite[key] = self._finite.get(key, 0) + capacity

    def forbid(self, start: int, end: int) -> None:
        """Never let `start` be on the source's side and `end` on the sink's."""
        if start != end:
            self._infinite.add((start, end))

    def cost(self, side: Collection[int]) -> int:
        """What it costs that `side` is on the source's side, and the rest on the sink's."""
        crossing = (
            capacity
            for (start, end), capacity in self._finite.items()
            if start in side and end not in side
        )
        return self._always + sum(crossing)

    def solve(self) -> set[int]:
        """The nodes on the source's side of a minimum cut: the fewest, so that it is unique.

        Every cut that forbids nothing is cheaper than one that does.
        """
        if not self._finite and not self._infinite:
            return {SOURCE}
        # Imported only where there is a choice: it takes longer than planning a small model.
        from scipy.sparse import coo_array, csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        unit = math.gcd(*self._finite.values()) or 1
        total = sum(self._finite.values()) // unit
        divisor = -(-2 * (total + 1) // _LARGEST)
        self.exact = divisor == 1
        # Rounded up, so that what costs something never becomes free.
        scaled = {key: -(-capacity // (unit * divisor)) for key, capacity in self._finite.items()}
        barrier = min(sum(scaled.values()) + 1, _LARGEST)
        scaled.update(dict.fromkeys(self._infinite, barrier))
        ends = np.array(list(scaled), np.int32).T
        capacities = np.array(list(scaled.values()), np.int32)
        shape = (self._count, self._count)
        network = csr_array(coo_array((capacities, (ends[0], ends[1])), shape=shape))
        residual = network - maximum_flow(network, SOURCE, SINK).flow
        residual.eliminate_zeros()
        return set(breadth_first_order(residual, SOURCE, return_predecessors=False).tolist())
