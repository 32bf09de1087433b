"""Errors of one model with some nodes pinned, from one session."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnxcast.planning import PinLevel
from onnxcast.verification.prover import Prover
from onnxcast.verification.sensitivity import Choice, Sensitivity, rank
from onnxcast.verification.switches import Switched

__all__ = ["Ranking", "Trials"]

Ranking = Sequence[tuple[int, float]]
"""Positions of nodes with the error that each alone makes, the largest first."""

_RUNS, _SECONDS = 64, 30.0
"""So far nodes are told apart before the rest of a block shares its error."""


class Trials:
    """Tries pins.

    Args:
        switched: The model, with its plan when no node is pinned and when all are but for weights.
        runs: Runs it.
        prover: Has run the source on the same samples.
        spared: Whether a node must not be pinned.

    Attributes:
        nodes: All nodes that have switches; they are known by their position.
        free: The positions of those that a pin makes a difference to and that may be pinned.
        weighted: The positions of those whose weights a pin may leave narrow or not.
        wide: Those of `weighted` that are all wide, when they are pinned or if they always are.
        numbers: The samples that count, by number.
        measurements: How many runs served to rank nodes.
    """

    def __init__(
        self,
        switched: Switched,
        runs: Sensitivity,
        prover: Prover,
        spared: Callable[[ir.Node], bool],
    ) -> None:
        self._runs = runs
        self._prover = prover
        self.nodes = switched.nodes
        mine = [position for position, node in enumerate(self.nodes) if not spared(node)]
        self.free = [position for position in mine if switched.can_narrow(position)]
        self.weighted = [position for position in mine if switched.can_widen(position)]
        spared_ones = set(range(len(self.nodes))).difference(mine)
        self._spared: Mapping[int, PinLevel] = dict.fromkeys(spared_ones, PinLevel.NONE)
        self.wide: frozenset[int] = frozenset()
        self.numbers = [0]
        self.measurements = 0

    def error(self, pinned: AbstractSet[int]) -> float:
        """The error with these of `free` pinned, each at its `level`.

        Raises:
            RuntimeFailure: The model does not run. (From all that runs it.)
        """
        return self._error(self._pinned(pinned))

    def error_of_weights(self, wide: AbstractSet[int]) -> float:
        """The error with all nodes pinned, and these of `weighted` wide."""
        return self._error(self._light(wide))

    def level(self, position: int) -> PinLevel:
        """How much of a node stays wide when it is pinned."""
        return PinLevel.WIDE if position in self.wide else PinLevel.WEIGHTS

    def rank(self, positions: Sequence[int], seconds: float) -> Ranking:
        """What each of these of `free` alone does, with all others pinned."""
        every = set(self.free)
        return self._rank(positions, lambda on: self._pinned(every.difference(on)), seconds)

    def rank_weights(self, seconds: float) -> Ranking:
        """What the narrow weights of each node alone do."""
        every = set(self.weighted)
        return self._rank(self.weighted, lambda on: self._light(every.difference(on)), seconds)

    def _pinned(self, pinned: AbstractSet[int]) -> Choice:
        free = set(self.free)
        always = dict.fromkeys(self.wide.difference(free), PinLevel.WIDE)
        return Choice({**always, **{position: self.level(position) for position in pinned}})

    def _light(self, wide: AbstractSet[int]) -> Choice:
        return Choice({**dict.fromkeys(wide, PinLevel.WIDE), **self._spared}, PinLevel.WEIGHTS)

    def _error(self, choice: Choice) -> float:
        [outputs] = self._runs.outputs([choice], self.numbers)
        return self._prover.error(outputs)

    def _rank(
        self, positions: Sequence[int], chosen: Callable[[Sequence[int]], Choice], seconds: float
    ) -> Ranking:
        number = self.numbers[0]

        def errors(blocks: Sequence[Sequence[int]]) -> list[float]:
            self.measurements += len(blocks)
            found = self._runs.outputs([chosen(block) for block in blocks], [number])
            return [self._prover.disturbance(each[number], number) for each in found]

        if not positions:
            return []
        return rank(positions, errors, runs=_RUNS, seconds=min(seconds, _SECONDS))
