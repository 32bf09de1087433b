"""How far each narrow node alone moves the outputs, from runs of one session.

Blocks of neighbouring nodes are switched on first, each alone, then the halves of those that move
the outputs most, and so on down to single nodes or until the time is up. The nodes of a block that
was not split share its error evenly; errors add up like those of independent random numbers.
"""

import heapq
import itertools
import math
import pathlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import onnx_ir as ir

from onnxcast.files import commit
from onnxcast.verification.session import Worker
from onnxcast.verification.switches import SWITCHES, Switched
from onnxcast.verification.values import Feeds, Value

__all__ = ["Sensitivity"]

_BLOCKS = 16
"""So many blocks there are at first, and so many runs are asked for at a time."""

_NEGLIGIBLE = 0.02
"""A block that moves the outputs by less, in tolerances, is not split."""


class Sensitivity:
    """Errors of the outputs with some nodes narrow.

    Args:
        switched: The nodes.
        sample: What to run on.
        judge: Gives the error of outputs, in tolerances.
        worker: Runs the model.
        folder: For the file.
    """

    def __init__(
        self,
        switched: Switched,
        sample: Feeds,
        judge: Callable[[Mapping[str, Value]], float],
        worker: Worker,
        folder: pathlib.Path,
    ) -> None:
        self._switched = switched
        self._sample = sample
        self._judge = judge
        self._worker = worker
        self._path = folder / "switched.onnx"
        commit(switched.model, self._path)

    @property
    def nodes(self) -> list[ir.Node]:
        """The nodes, in the order of their switches."""
        return self._switched.nodes

    def errors(self, choices: Sequence[Collection[int]]) -> list[float]:
        """The error of the outputs for each choice of switches that are on.

        Raises:
            RuntimeFailure: The model does not run.
        """
        feeds = [{**self._sample, SWITCHES: self._switched.feed(on)} for on in choices]
        results = self._worker.run(self._path, feeds, level="disable_all")
        return [self._judge(outputs) for outputs in results]

    def rank(self, *, runs: int, seconds: float) -> list[tuple[ir.Node, float]]:
        """The nodes with what each alone does to the outputs, the worst first.

        Args:
            runs: After so many runs no more blocks are split.
            seconds: Nor after so long.

        Raises:
            RuntimeFailure: The model does not run.
        """
        [nothing] = self.errors([()])
        end = time.monotonic() + seconds
        whole = range(len(self._switched.nodes))
        size = max(1, math.ceil(len(whole) / _BLOCKS))
        fresh = [whole[start : start + size] for start in range(0, len(whole), size)]
        waiting: list[tuple[float, int, range]] = []
        settled: list[tuple[float, range]] = []
        order = itertools.count()
        while fresh:
            for block, error in zip(fresh, self.errors(fresh), strict=True):
                own = math.sqrt(max(error**2 - nothing**2, 0.0)) if error < math.inf else error
                if len(block) == 1 or own < _NEGLIGIBLE:
                    settled.append((own, block))
                else:
                    heapq.heappush(waiting, (-own, next(order), block))
            runs -= len(fresh)
            fresh = []
            while waiting and len(fresh) < min(_BLOCKS, runs) and time.monotonic() < end:
                block = heapq.heappop(waiting)[2]
                middle = len(block) // 2
                fresh += [block[:middle], block[middle:]]
        settled += [(-negative, block) for negative, _, block in waiting]
        shares = [
            (self._switched.nodes[index], error / math.sqrt(len(block)))
            for error, block in settled
            for index in block
        ]
        return sorted(shares, key=lambda share: -share[1])
