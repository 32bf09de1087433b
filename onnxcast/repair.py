"""Pins for a result that does not verify: few, and found in one session.

Nodes are ranked by what each alone does to the outputs, and as many of the first are pinned as it
takes for the rest to stay inside the tolerance, with room to spare for other samples. A pinned
matmul-like node keeps its weights narrow, unless narrow weights alone are too much: then those that
do most are wide as well. Whole numbers that came out unequal leave no room to measure, so all that
they are computed from is wide.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxcast.files import collector_paused
from onnxcast.graph.walk import upstream
from onnxcast.planning import PinLevel, Plan
from onnxcast.search import Pins, fewest, growing, pinned_only
from onnxcast.verification.sensitivity import Sensitivity
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.switches import Switched
from onnxcast.verification.values import Feeds, Value

__all__ = ["MARGIN", "Repair"]

MARGIN = 0.3
"""A repaired result uses up no more of the tolerance, as other samples may need twice as much."""

_RUNS, _SECONDS = 64, 30.0
"""So far nodes are told apart before the rest of a block shares its error."""

_logger = logging.getLogger(__name__)

_Ranking = Sequence[tuple[ir.Node, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repair:
    """Proposes pins for one model.

    Attributes:
        model: Prepared, without the pins to be found; it has them only while this works.
        plan: Makes the plan of the model as it is pinned at the moment.
        sample: What to run on.
        judge: Gives the error of outputs, in tolerances.
        worker: Runs models.
        folder: For files.
        unequal: Outputs of whole numbers that differ.
        spared: Whether a node must not be pinned.
        progress: Told what is going on.
    """

    model: ir.Model
    plan: Callable[[], Plan]
    sample: Feeds
    judge: Callable[[Mapping[str, Value]], float]
    worker: Worker
    folder: pathlib.Path
    unequal: Collection[str]
    spared: Callable[[ir.Node], bool]
    progress: Callable[[str], None]

    def proposals(self) -> Iterator[Pins]:
        """Pins to try, the fewest first, the last being all."""
        base = {node: pin for node, pin in self._before_unequal() if not self.spared(node)}
        with pinned_only(base):
            for pins in self._beside():
                yield {**pins, **base}

    def _before_unequal(self) -> Iterator[tuple[ir.Node, tuple[str, PinLevel]]]:
        if not self.unequal:
            return
        narrow = {group.node: None for group, _ in self.plan().narrow()}
        for output in self.model.graph.outputs:
            if output.name in self.unequal:
                figure, before = f"{output.name} is computed from it, and differs", upstream(output)
                yield from ((node, (figure, PinLevel.WIDE)) for node in narrow if node in before)

    def _beside(self) -> Iterator[Pins]:
        """Pins to try beside those of what unequal outputs are computed from."""
        full = self.plan()
        everything = self._pins([(group.node, 0.0) for group, _ in full.narrow()])
        try:
            yield from self._few(full, everything)
        except RuntimeFailure as failure:
            _logger.info("the model does not run with switches: %s", failure.message)
        yield everything
        yield self._pins([(node, 0.0) for node in everything], PinLevel.WIDE)

    def _few(self, full: Plan, everything: Pins) -> Iterator[Pins]:
        """Pins along a ranking.

        Raises:
            RuntimeFailure: The model does not run with switches in it.
        """
        with pinned_only(everything):
            light = self.plan()
        self.progress("measure what each node does")
        rivals, wide = self._rivals(full, light), self._pins([])
        if rivals.errors([()])[0] > MARGIN / 2:
            self.progress("measure what narrow weights do")
            ranking, number = self._needed(self._rivals(light, None))
            wide = self._pins(ranking[:number], PinLevel.WIDE)
            with pinned_only({**everything, **wide}):
                rivals = self._rivals(full, self.plan())
        ranking, number = self._needed(rivals)
        for count in growing(number, len(ranking)):
            yield {**self._pins(ranking[:count]), **wide}
        yield {**everything, **wide}

    def _rivals(self, on: Plan, off: Plan | None) -> Sensitivity:
        with collector_paused():
            switched = Switched(self.model, on, off)
            return Sensitivity(switched, self.sample, self.judge, self.worker, self.folder)

    def _needed(self, sensitivity: Sensitivity) -> tuple[_Ranking, int]:
        """The nodes in order, and how many of the first must be switched off."""
        position = {node: index for index, node in enumerate(sensitivity.nodes)}
        if sensitivity.errors([position.values()])[0] <= MARGIN:
            return [], 0
        found = sensitivity.rank(runs=_RUNS, seconds=_SECONDS)
        ranking = [each for each in found if not self.spared(each[0])]
        spared = set(position.values()) - {position[node] for node, _ in ranking}

        def passes(count: int) -> bool:
            on = {position[node] for node, _ in ranking[count:]} | spared
            return sensitivity.errors([on])[0] <= MARGIN

        number = fewest(len(ranking), passes)
        return ranking, len(ranking) if number is None else number

    def _pins(self, ranking: _Ranking, level: PinLevel = PinLevel.WEIGHTS) -> Pins:
        return {node: (_figure(error), level) for node, error in ranking if not self.spared(node)}


def _figure(error: float) -> str:
    if error == 0:
        return "pinned with all others, as fewer did not do"
    return f"alone moves the outputs by {error:.3g} of the tolerance"
