"""Errors of one model with some nodes pinned, from one session."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnxcast.planning import PinLevel, Plan
from onnxcast.search import pinned_only
from onnxcast.verification.estimates import Estimates
from onnxcast.verification.prover import Prover
from onnxcast.verification.sensitivity import Choice, Sensitivity, rank
from onnxcast.verification.switches import Switched

__all__ = ["Ranking", "Trials"]

Ranking = Sequence[tuple[int, float]]
"""Positions of nodes with about the error that each alone makes, the largest first."""

_RUNS, _SECONDS = 64, 30.0
"""So far nodes are told apart before the rest of a block shares its error."""


class Trials:
    """Tries pins.

    Args:
        switched: The model, with its plan when no node is pinned and when all are but for weights.
        runs: Runs it.
        prover: Has run the source on the same samples.
        estimates: What the nodes do; None to measure it.
        plan: Makes the plan of the model as it is pinned at the moment; None to take no account of
            nodes that are wide because those around them are.
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
        estimates: Estimates | None,
        plan: Callable[[], Plan] | None,
        spared: Callable[[ir.Node], bool],
    ) -> None:
        self._plan = plan
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
        self._estimates = estimates
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
        if self._estimates is not None:
            return _ranked(positions, self._estimates.activations, self._estimates.local)
        every = set(self.free)

        def chosen(on: Sequence[int]) -> Choice:
            return Choice(self._levels(every.difference(on)))

        return self._rank(positions, chosen, seconds)

    def rank_weights(self, seconds: float) -> Ranking:
        """What the narrow weights of each node alone do."""
        if self._estimates is not None:
            return _ranked(self.weighted, self._estimates.weights, self._estimates.local)
        every = set(self.weighted)
        return self._rank(self.weighted, lambda on: self._light(every.difference(on)), seconds)

    def _pinned(self, pinned: AbstractSet[int]) -> Choice:
        """What the plan with these pins does; nodes among wide ones it may leave wide as well."""
        levels = self._levels(pinned)
        if self._plan is None:
            return Choice(levels)
        with pinned_only({self.nodes[each]: ("tried", level) for each, level in levels.items()}):
            narrow = {group.node for group, _ in self._plan().narrow()}
        left = [each for each, node in enumerate(self.nodes) if node not in narrow]
        return Choice({**dict.fromkeys(left, PinLevel.WIDE), **levels})

    def _levels(self, pinned: AbstractSet[int]) -> dict[int, PinLevel]:
        """How much of nodes stays wide when these of `free` are pinned."""
        always = self.wide.difference(self.free)
        return {each: self.level(each) for each in sorted({*pinned, *always})}

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


def _ranked(positions: Sequence[int], errors: Sequence[float], local: Sequence[float]) -> Ranking:
    order = sorted(positions, key=lambda each: (-errors[each], -local[each]))
    return [(each, errors[each]) for each in order]
