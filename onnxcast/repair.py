"""Pins for a result that does not verify: few, and found in one session.

Nodes are ranked by what each alone does to the outputs, and as many of the first are pinned as it
takes for the rest to stay inside the tolerance, with room to spare for other samples. A pinned
matmul-like node keeps its weights narrow, unless narrow weights alone are too much: then those that
do most are wide as well.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxcast.planning import PinLevel, Plan
from onnxcast.search import Pins, fewest, growing, pinned_only
from onnxcast.verification.sensitivity import Sensitivity
from onnxcast.verification.session import Worker
from onnxcast.verification.switches import Switched
from onnxcast.verification.values import Feeds, Value

__all__ = ["MARGIN", "Repair"]

MARGIN = 0.5
"""A repaired result shall be this far inside the tolerance, for the sake of other samples."""

_SECONDS = 8.0
"""So long nodes are told apart before the rest of a block shares its error."""

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
        spared: Whether a node must not be pinned.
        progress: Told what is going on.
    """

    model: ir.Model
    plan: Callable[[], Plan]
    sample: Feeds
    judge: Callable[[Mapping[str, Value]], float]
    worker: Worker
    folder: pathlib.Path
    spared: Callable[[ir.Node], bool]
    progress: Callable[[str], None]

    def proposals(self) -> Iterator[Pins]:
        """Pins to try, the fewest first, the last being all.

        Raises:
            RuntimeFailure: The model does not run with switches in it.
        """
        full = self.plan()
        everything = self._pins([(group.node, 0.0) for group, _ in full.narrow()])
        with pinned_only(everything):
            light = self.plan()
        self.progress("measure what narrow weights do")
        wide = self._too_heavy(light)
        with pinned_only({**everything, **wide}):
            rest = self.plan()
        self.progress("measure what each node does")
        ranking, number = self._needed(full, rest)
        for count in growing(number, len(ranking)):
            yield {**self._pins(ranking[:count]), **wide}
        yield {**everything, **wide}
        yield self._pins(list(dict.fromkeys((n, 0.0) for n in everything)), PinLevel.WIDE)

    def _too_heavy(self, light: Plan) -> Pins:
        """Pins of the nodes whose narrow weights are too much although all else is wide."""
        ranking, number = self._needed(light, None)
        return self._pins(ranking[:number], PinLevel.WIDE)

    def _needed(self, on: Plan, off: Plan | None) -> tuple[_Ranking, int]:
        """The nodes in order, and how many of the first must do as `off` says."""
        switched = Switched(self.model, on, off)
        if not switched.nodes:
            return [], 0
        sensitivity = Sensitivity(switched, self.sample, self.judge, self.worker, self.folder)
        position = {node: index for index, node in enumerate(switched.nodes)}
        if sensitivity.errors([position.values()])[0] <= MARGIN:
            return [], 0
        ranking = [each for each in sensitivity.rank(_SECONDS) if not self.spared(each[0])]
        spared = set(position.values()) - {position[node] for node, _ in ranking}

        def passes(count: int) -> bool:
            on = {position[node] for node, _ in ranking[count:]} | spared
            return sensitivity.errors([on])[0] <= MARGIN

        number = fewest(len(ranking), passes)
        return ranking, len(ranking) if number is None else number

    def _pins(self, ranking: _Ranking, level: PinLevel = PinLevel.WEIGHTS) -> Pins:
        return {
            node: (f"alone moves the outputs by {error:.3g} of the tolerance", level)
            for node, error in ranking
            if not self.spared(node)
        }
