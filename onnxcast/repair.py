"""Pins for a result that does not verify: the fewest that a search finds.

One session runs the model with a switch for each node. Nodes are ranked by their ranges and by what
each alone does to the outputs, and a search pins as few as it can. A pinned matmul-like node keeps
its weights narrow, unless narrow weights alone are too much: then those that do most are wide as
well. What is found is verified as a real model; where that shows more than the switches did, the
search goes on.
"""

import dataclasses
import logging
import math
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnxcast.files import collector_paused
from onnxcast.pin_sets import all_narrow, before_unequal
from onnxcast.planning import PinLevel, Plan
from onnxcast.search import Pins, Search, SearchRecord, allowed_trials, expected, pinned_only
from onnxcast.trials import Ranking, Trials
from onnxcast.verification.estimates import Estimates, estimate
from onnxcast.verification.prover import Prover
from onnxcast.verification.sensitivity import Sensitivity
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.switches import Switched
from onnxcast.verification.values import Feeds

__all__ = ["MARGIN", "Repair"]

MARGIN = 0.3
"""Without a budget, a result uses up no more of the tolerance, as other samples may need more."""

_WEIGHTS = 0.5
"""Narrow weights alone may use up this much of the limit; else some are wide."""

_REMOVALS = 64
"""Without a budget, so many trials take pins away at most: a plain run is to be short."""

_ROUNDS = 6
"""So often a search goes on after a real model showed more than the switches did."""

_STRICTER = 0.9
"""The limit is then lowered to this much of itself, or as far as the real error asks for."""

_logger = logging.getLogger(__name__)

_Found = dict[ir.Node, tuple[str, PinLevel]]


@dataclasses.dataclass(kw_only=True)
class Repair:
    """Looks for pins for one model.

    Attributes:
        model: Prepared, without the pins to be found; it has them only while this works.
        plan: Makes the plan of the model as it is pinned at the moment.
        samples: What to run on.
        prover: Has run the source on the samples, and last a result that failed.
        folder: For files.
        leaving: Nodes whose values leave the format, with the figure: the first to be pinned.
        spared: Whether a node must not be pinned.
        limit: The share of the tolerance or budget that may be used up.
        cautious: Whether other samples shall verify as well: then nothing is narrow before outputs
            of whole numbers that differ, pins that luck alone makes needless are kept, and so what
            each node does is measured. Else that is estimated, and trials are the only runs.
        verify: Makes and proves the result with some pins; gives the share of the budget that it
            uses up, inf if it fails otherwise.
        progress: Told what is going on.
        deadline: When to stop, in seconds of `time.monotonic`.
    """

    model: ir.Model
    plan: Callable[[], Plan]
    samples: Sequence[Feeds]
    prover: Prover
    folder: pathlib.Path
    leaving: Mapping[ir.Node, str]
    spared: Callable[[ir.Node], bool]
    limit: float
    cautious: bool
    verify: Callable[[Pins], float]
    progress: Callable[[str], None]
    deadline: float = math.inf

    def __post_init__(self) -> None:
        self._trials: Trials | None = None
        self._search: Search | None = None
        self._best: int | None = None
        self._minimal = False
        self._found = False
        self._verifications = 0
        self._seconds = 0.0

    def run(self) -> None:
        """Verify results with fewer and fewer pins; the last that passes is the best.

        Without caution all is wide first, so that there is a result however soon this is stopped;
        if even that fails, nothing else is tried.
        """
        if not self.cautious and not self._passes(self.widest()):
            return
        if self._is_late():
            return
        base = (
            before_unequal(self.model, self.plan(), self.prover.unequal(), self.spared)
            if self.cautious
            else {}
        )
        with pinned_only(base):
            try:
                with Worker() as worker:
                    self._look(base, worker)
            except RuntimeFailure as failure:
                _logger.info("the model does not run with switches: %s", failure.message)
            if not self._found and not self._is_late():
                levels = (PinLevel.WEIGHTS, PinLevel.WIDE)
                plan = self.plan()
                any(
                    self._passes({**all_narrow(plan, self.spared, each), **base}) for each in levels
                )

    def widest(self) -> Pins:
        """Pins for all that may be pinned."""
        return all_narrow(self.plan(), self.spared, PinLevel.WIDE)

    def record(self, stopped: str = "") -> SearchRecord:
        """What was done so far.

        Args:
            stopped: What ended it, if not this.
        """
        search, trials = self._search, self._trials
        groups, pins = len(trials.free) if trials else 0, self._best or 0
        late = "time is up" if self._left() <= 0 else ""
        return SearchRecord(
            limit=self.limit,
            groups=groups,
            pins=pins,
            trials=search.trials if search else 0,
            trial_bound=allowed_trials(groups, pins),
            measurements=trials.measurements if trials else 0,
            verifications=self._verifications,
            minimal=self._minimal,
            monotone=search is None or search.monotone,
            stopped=stopped or late,
        )

    def _look(self, base: Pins, worker: Worker) -> None:
        narrow = self.plan()
        with pinned_only(all_narrow(narrow, self.spared)):
            light = self.plan()
        self.progress("build the model with switches")
        with collector_paused():
            switched = Switched(self.model, narrow, light)
            runs = Sensitivity(switched, self.samples, worker, self.folder)
        numbers = self.prover.telling_samples()
        self.progress("measure what each node does")
        trials = self._trials = Trials(
            switched,
            runs,
            self.prover,
            self._estimates(switched, numbers, worker),
            None if self.cautious else self.plan,
            self.spared,
        )
        trials.numbers = numbers
        spent = self._widen_weights(trials)
        ranking = self._ranking(trials)
        self._search = self._new_search(trials.error, spent)
        self._narrow_down(self._search, trials, ranking, base)

    def _estimates(
        self, switched: Switched, numbers: Sequence[int], worker: Worker
    ) -> Estimates | None:
        """What each node does; None where that is to be measured."""
        if self.cautious:
            return None
        names = [value.name or "" for value in self.model.graph.outputs]
        limits = {name: self.prover.limit_of(name) for name in names}
        feeds = [self.samples[number] for number in numbers]
        try:
            with collector_paused():
                return estimate(self.model, switched, limits, feeds, worker, self.folder)
        except RuntimeFailure as failure:
            _logger.info("what nodes do is not estimated: %s", failure.message)
            return None

    def _widen_weights(self, trials: Trials) -> int:
        """Choose the weights that are wide if their node is pinned; return the trials it took."""
        search = self._search = self._new_search(trials.error_of_weights, 0)
        most = self.limit * _WEIGHTS
        if trials.weighted and search.error(frozenset()) > most:
            ranking = trials.rank_weights(self._left())
            number = search.fewest_of(ranking, frozenset(), most, start=self._guess(ranking, most))
            chosen = ranking if number is None else ranking[:number]
            trials.wide = frozenset(position for position, _ in chosen)
        return search.trials

    def _ranking(self, trials: Trials) -> Ranking:
        """The nodes that may be pinned, the likeliest culprits first."""
        leaving = [each for each in trials.free if trials.nodes[each] in self.leaving]
        others = sorted(set(trials.free).difference(leaving))
        return [*((each, math.inf) for each in leaving), *trials.rank(others, self._left())]

    def _new_search(self, error: Callable[[frozenset[int]], float], spent: int) -> Search:
        trials = self._trials
        assert trials is not None

        def told(pins: frozenset[int]) -> float:
            best = "none yet" if self._best is None else f"{self._best} pins"
            number = self._search.trials if self._search else 1
            left = "" if self.deadline == math.inf else f", {max(self._left(), 0):.0f} s left"
            self.progress(f"search: trial {number}, {len(pins)} pins, best {best}{left}")
            return error(pins)

        search = Search(len(trials.free), told, self.limit, lambda: self._left() > 0)
        search.trials = spent
        return search

    def _narrow_down(self, search: Search, trials: Trials, ranking: Ranking, base: Pins) -> None:
        """Verify a set along the ranking, then smaller ones; go on after a failure, more strictly.

        Raises:
            RuntimeFailure: The model does not run with switches in it.
        """
        pins: set[int] = set(trials.wide.intersection(trials.free))
        for _ in range(_ROUNDS):
            if self._is_late():
                return
            rest = [each for each in ranking if each[0] not in pins]
            number = search.fewest_of(rest, pins, start=self._guess(rest, search.limit))
            if number is None:
                return
            pins.update(position for position, _ in rest[:number])
            # A run that may be stopped wants a result soon; another waits for the smaller set.
            soon = not self.cautious or self.deadline < math.inf
            if soon and not self._found and not self._holds(search, trials, ranking, pins, base):
                continue
            search.most = search.trials + _REMOVALS if self.cautious else math.inf
            order = self._removable(ranking, pins)
            fewer = search.minimal_of(pins, order, singly=not self.cautious)
            same = fewer == pins and self._found
            if same or self._holds(search, trials, ranking, fewer, base):
                exact = search.limit == self.limit and not self.cautious
                self._minimal = search.minimal and exact
                return
            pins = fewer

    def _guess(self, ranking: Ranking, limit: float) -> int:
        """How many to try first: fewer than are needed where other samples count as well."""
        return 0 if self.cautious else expected(ranking, limit)

    def _removable(self, ranking: Ranking, pins: AbstractSet[int]) -> list[int]:
        """Pins that may go, the first to go first.

        Errors that happen to cancel on these samples add up on others, like those of independent
        random numbers.
        """
        if not self.cautious:
            return [position for position, _ in reversed(ranking) if position in pins]
        expected = sum(error**2 for position, error in ranking if position not in pins)
        found = []
        for position, error in reversed(ranking):
            if position in pins:
                expected += error**2
                if not expected <= self.limit**2:
                    break
                found.append(position)
        return found

    def _holds(
        self, search: Search, trials: Trials, ranking: Ranking, pins: AbstractSet[int], base: Pins
    ) -> bool:
        """Whether a real model with these pins verifies; else the search is made stricter."""
        figures = dict(ranking)
        named: _Found = {
            trials.nodes[each]: (
                self.leaving.get(trials.nodes[each]) or _figure(figures[each]),
                trials.level(each),
            )
            for each in sorted(pins)
        }
        always = trials.wide.difference(trials.free)
        named.update({trials.nodes[each]: ("pinned", PinLevel.WIDE) for each in always})
        error = self._verify({**named, **base})
        if error <= self.limit:
            self._found, self._best = True, len(pins)
            return True
        sample = self.prover.worst_sample()
        if sample in trials.numbers:
            search.forget(search.limit * min(_STRICTER, self.limit / error))
        else:
            trials.numbers.append(sample)
            search.forget(search.limit)
        return False

    def _passes(self, pins: Pins) -> bool:
        """Whether a real model with these pins verifies."""
        passes = self._verify(pins) <= self.limit
        if passes:
            self._best = len(pins)
        return passes

    def _verify(self, pins: Pins) -> float:
        self._verifications += 1
        self.progress(f"verify a result with {len(pins)} pins")
        start = time.monotonic()
        error = self.verify(pins)
        self._seconds = time.monotonic() - start
        return error

    def _is_late(self) -> bool:
        """Whether to stop with the best result so far, as there is one."""
        return self._best is not None and self._left() <= 0

    def _left(self) -> float:
        """Seconds until the search has to end, so that what it found can be verified."""
        return self.deadline - time.monotonic() - self._seconds


def _figure(error: float) -> str:
    if error == 0:
        return "too much is narrow without it, though alone it moves no output"
    return f"alone moves the outputs by {error:.3g} of the tolerance"
