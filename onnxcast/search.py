"""Which nodes must stay wide so that an error budget holds: found by trial, the fewest it can.

The nodes are ranked, the likeliest culprit first. A search doubles and bisects for how many of the
first must be pinned, and then takes single pins away until none can go. Errors are shares of the
budget. Pins that raise the error break the order that bisection counts on: the search notices, says
so, and keeps the smallest set that passed.
"""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import onnx_ir as ir

from onnxcast.planning import PinLevel, pin, pin_level, pinned, unpin

__all__ = ["Pins", "Search", "SearchRecord", "allowed_trials", "expected", "pinned_only"]

Pins: TypeAlias = Mapping[ir.Node, tuple[str, PinLevel]]
"""Nodes with the figure that pins them, and how much of them stays wide."""

_Positions: TypeAlias = frozenset[int]

_NOTICEABLE = 0.05
"""A pin that raises the error by less, in shares of the budget, is no sign of anything."""

_REMEMBERED = 64
"""So many of the last trials are compared with each new one."""


@contextlib.contextmanager
def pinned_only(pins: Pins) -> Iterator[None]:
    """Pin nodes for a while, with figures and levels; what is pinned already keeps its figure."""
    before = {node: (pinned(node), pin_level(node)) for node in pins}
    for node, (figure, level) in pins.items():
        known, known_level = before[node]
        if known_level is PinLevel.NONE or level is PinLevel.WIDE:
            pin(node, known or figure, level)
    try:
        yield
    finally:
        for node, (known, known_level) in before.items():
            if known_level is PinLevel.NONE:
                unpin(node)
            else:
                pin(node, known, known_level)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """What a search did.

    Attributes:
        limit: The share of the budget that it kept to.
        groups: How many nodes there were to choose from.
        pins: How many it found.
        trials: How many sets of pins it tried, all in one session.
        trial_bound: How many it might have tried.
        measurements: How many runs ranked the nodes beside the trials; without a budget alone.
        verifications: How many results were made and proved.
        minimal: Whether every single pin was seen to be needed beside the others.
        monotone: Whether no trial had a higher error than another one with fewer pins.
        stopped: What ended it early, or "".
    """

    limit: float
    groups: int
    pins: int
    trials: int
    trial_bound: float
    measurements: int
    verifications: int
    minimal: bool
    monotone: bool
    stopped: str = ""

    @property
    def note(self) -> str:
        """What to know about the pins found, in a few words; "" if nothing."""
        notes = ([] if self.monotone else ["not monotone"]) + ([self.stopped] * bool(self.stopped))
        return "; ".join(notes)


def allowed_trials(groups: int, pins: int) -> float:
    """How many trials may find so many pins among so many nodes."""
    return 2 * math.log2(max(groups, 1)) + 3 * pins + 10


class Search:
    """Looks for few pins.

    Args:
        groups: How many nodes there are to choose from.
        error: Tries pins: the error of the outputs with only the nodes at these positions pinned.
        limit: The highest error that passes.
        proceed: Whether there is time for another trial.

    Attributes:
        trials: How many sets were tried.
        monotone: Whether no trial had a higher error than another one with fewer pins.
        minimal: Whether each pin of the set that `minimal_of` gave last is needed in it.
        most: After so many trials no more pins are taken away.
    """

    def __init__(
        self,
        groups: int,
        error: Callable[[_Positions], float],
        limit: float,
        proceed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._groups = groups
        self._error = error
        self._proceed = proceed
        self._tried: list[tuple[_Positions, float]] = []
        self._known: dict[_Positions, float] = {}
        self.limit = limit
        self.trials = 0
        self.monotone = True
        self.minimal = False
        self.most = math.inf

    def forget(self, limit: float) -> None:
        """Go on with another limit, or other samples: known errors no longer hold."""
        self.limit = limit
        self._tried.clear()
        self._known.clear()

    def error(self, pins: AbstractSet[int]) -> float:
        """The error with these pins, by a trial unless it is known."""
        key = frozenset(pins)
        if key not in self._known:
            self.trials += 1
            self._known[key] = found = self._error(key)
            self._compare(key, found)
        return self._known[key]

    def passes(self, pins: AbstractSet[int]) -> bool:
        """Whether these pins keep the error within the limit."""
        return self.error(pins) <= self.limit

    def fewest_of(
        self,
        ranking: Sequence[tuple[int, float]],
        beside: AbstractSet[int],
        limit: float | None = None,
        *,
        start: int = 0,
    ) -> int | None:
        """How many of the first of a ranking must be pinned; exact if errors are monotone.

        Args:
            ranking: Positions with the error that each alone makes, the largest first.
            beside: What is pinned as well.
            limit: The highest error that passes, if not the usual one.
            start: A guess.

        Returns:
            The number, for which a trial passed; None if even all are too few.
        """
        most = self.limit if limit is None else limit

        def attempt(count: int) -> bool:
            pins = {*beside, *(position for position, _ in ranking[:count])}
            return self.error(pins) <= most

        # Another trial may have to follow the last one.
        within = allowed_trials(self._groups, 1) - 2

        def proceed() -> bool:
            return self.trials <= within and self._proceed()

        return _smallest(len(ranking), attempt, proceed, min(start, len(ranking)))

    def minimal_of(
        self, pins: AbstractSet[int], order: Sequence[int], *, singly: bool = False
    ) -> set[int]:
        """Take away pins as long as the rest passes.

        Args:
            pins: A set that passed.
            order: Those that may go, the first to go first.
            singly: Whether that order is a guess, to be mended by trials of single ones.

        Returns:
            A set that passed; `minimal` tells whether no single one of `order` can go from it.
        """
        kept = set(pins)
        waiting, size = [each for each in order if each in pins], 1
        if singly:
            waiting, size = self._cheapest(kept, waiting)
        while waiting := waiting or self._unsure(kept, order):
            size = min(size, len(waiting)) if self._may_try(len(kept) - size) else 1
            if not self._may_try(len(kept) - size):
                break
            going = waiting[:size]
            if self.passes(kept.difference(going)):
                kept.difference_update(going)
                waiting, size = waiting[size:], 2 * size
            elif size == 1:
                del waiting[0]
            else:
                size //= 2
        self.minimal = not waiting
        return kept

    def _cheapest(self, kept: set[int], order: Sequence[int]) -> tuple[list[int], int]:
        """Those of `order` that may go, by what each adds to the error, and how many may at once.

        Each is tried alone as long as enough are needed to pay for that. Errors add up like those
        of independent random numbers.
        """
        error = self.error(kept)
        added: dict[int, float] = {}
        needed: set[int] = set()
        for each in order:
            # Those that are needed are tried once more, beside what is left in the end.
            allowed = min(allowed_trials(self._groups, len(needed)), self.most) - len(needed)
            if self.trials + 1 > allowed or not self._proceed():
                break
            single = self.error(kept.difference([each]))
            if single <= self.limit:
                added[each] = max(single**2 - error**2, 0.0)
            else:
                needed.add(each)
        cheapest = sorted(added, key=lambda each: added[each])
        sums = itertools.accumulate(added[each] for each in cheapest)
        size = sum(each <= self.limit**2 - error**2 for each in sums)
        rest = [each for each in order if not (each in added or each in needed)]
        return [*cheapest, *rest], max(size, 1)

    def _unsure(self, kept: set[int], order: Sequence[int]) -> list[int]:
        """Those of `order` that were needed beside pins that have gone since, or never tried."""
        return [
            each
            for each in order
            if each in kept and frozenset(kept.difference([each])) not in self._known
        ]

    def _may_try(self, pins: int) -> bool:
        """Whether another trial is allowed if so many pins may be the outcome."""
        allowed = min(allowed_trials(self._groups, pins), self.most)
        return self.trials + 1 <= allowed and self._proceed()

    def _compare(self, pins: _Positions, error: float) -> None:
        """Notice where more pins go with a higher error."""
        for other, known in self._tried[-_REMEMBERED:]:
            fewer, more = (known, error) if other < pins else (error, known)
            if (other < pins or pins < other) and self._is_rise(fewer, more):
                self.monotone = False
        self._tried.append((pins, error))

    def _is_rise(self, fewer: float, more: float) -> bool:
        """Whether an error with more pins is noticeably higher than one with fewer."""
        return more > fewer and (fewer <= self.limit < more or more - fewer > _NOTICEABLE)


def expected(ranking: Sequence[tuple[int, float]], limit: float) -> int:
    """How many of the first of a ranking are to be pinned if errors are independent."""
    left = 0.0
    for number, (_, error) in reversed(list(enumerate(ranking))):
        left += error**2
        if not left <= limit**2:
            return number + 1
    return 0


def _smallest(
    count: int, attempt: Callable[[int], bool], proceed: Callable[[], bool], start: int
) -> int | None:
    """The smallest number from 0 to `count` that `attempt` accepts, as all larger ones should.

    Args:
        count: The largest number.
        attempt: Whether a number will do.
        proceed: Whether there may be more than one attempt more.
        start: The first number to attempt.
    """
    refused, accepted, size, step = -1, count + 1, start, 1
    while accepted - refused > 1 and proceed():
        if attempt(size):
            accepted = size
        else:
            refused = size
        # The start is near, so steps double up from there before they halve the gap.
        if accepted > count:
            size = min(start + step, count)
        elif refused < 0:
            size = max(start - step, 0)
        else:
            size = (refused + accepted) // 2
        step *= 2
    if accepted <= count:
        return accepted
    return count if refused < count and attempt(count) else None
