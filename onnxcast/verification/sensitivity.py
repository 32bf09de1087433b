"""What pins of a model do to its outputs, from runs of one session on the model with switches.

To tell the nodes apart, blocks of neighbours are tried first, each alone, then the halves of those
that move the outputs most, and so on down to single nodes or until the time is up. The nodes of a
block that was not split share its error evenly; errors add up like those of independent random
numbers.
"""

import heapq
import itertools
import math
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from onnxcast.planning import PinLevel
from onnxcast.verification.scratch import place
from onnxcast.verification.session import Worker
from onnxcast.verification.switches import SWITCHES, Switched
from onnxcast.verification.values import Feeds, Value

__all__ = ["Choice", "Outputs", "Sensitivity", "rank"]

Outputs = Mapping[int, Mapping[str, Value]]
"""Outputs by the number of the sample."""

_BLOCKS = 16
"""So many blocks there are at first, and so many runs are asked for at a time."""

_NEGLIGIBLE = 0.02
"""A block that moves the outputs by less, in shares of what passes, is not split."""


class Choice(NamedTuple):
    """Which nodes are pinned.

    Attributes:
        pins: How much of the nodes at some positions stays float32.
        others: How much of all other nodes does.
    """

    pins: Mapping[int, PinLevel]
    others: PinLevel = PinLevel.NONE


class Sensitivity:
    """Runs a model with switches.

    Args:
        switched: The model.
        samples: What to run on.
        worker: Runs it.
        folder: For the file.

    Attributes:
        runs: How many there were.
    """

    def __init__(
        self,
        switched: Switched,
        samples: Sequence[Feeds],
        worker: Worker,
        folder: pathlib.Path,
    ) -> None:
        self._switched = switched
        self._samples = samples
        self._worker = worker
        self._path = folder / "switched.onnx"
        self.runs = 0
        place(switched.model, self._path)

    def outputs(self, choices: Sequence[Choice], samples: Sequence[int]) -> list[Outputs]:
        """The outputs for each choice, on the samples of these numbers.

        Raises:
            RuntimeFailure: The model does not run.
        """
        feeds = [
            {**self._samples[number], SWITCHES: self._switched.feed(*choice)}
            for choice in choices
            for number in samples
        ]
        self.runs += len(feeds)
        results = iter(self._worker.run(self._path, feeds, level="disable_all"))
        return [{number: next(results) for number in samples} for _ in choices]


def rank(
    positions: Sequence[int],
    errors: Callable[[Sequence[Sequence[int]]], list[float]],
    *,
    runs: int,
    seconds: float,
) -> list[tuple[int, float]]:
    """The positions with the error that each alone makes, the largest first.

    Args:
        positions: In the order of the graph.
        errors: Gives the errors that some blocks of positions make.
        runs: After so many blocks no more are split.
        seconds: Nor after so long.

    Raises:
        RuntimeFailure: The model does not run.
    """
    [nothing] = errors([()])
    end = time.monotonic() + seconds
    size = max(1, math.ceil(len(positions) / _BLOCKS))
    fresh = [positions[start : start + size] for start in range(0, len(positions), size)]
    waiting: list[tuple[float, int, Sequence[int]]] = []
    settled: list[tuple[float, Sequence[int]]] = []
    order = itertools.count()
    while fresh:
        for block, error in zip(fresh, errors(fresh), strict=True):
            above = (error - nothing) * (error + nothing)  # where a power would raise, inf is right
            own = math.sqrt(max(above, 0.0)) if error < math.inf else error
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
        (position, error / math.sqrt(len(block))) for error, block in settled for position in block
    ]
    return sorted(shares, key=lambda share: -share[1])
