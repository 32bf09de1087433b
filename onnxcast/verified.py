"""Results that are proved, and repaired until they verify."""

import contextlib
import dataclasses
import logging
import math
from collections.abc import Iterator
from pathlib import Path

from onnxcast.conversion import Conversion
from onnxcast.errors import VerificationError
from onnxcast.files import collector_paused
from onnxcast.files.temporary import TemporaryFolder
from onnxcast.repair import MARGIN, Repair
from onnxcast.result import Result, Samples, failure_text
from onnxcast.search import Pins, SearchRecord, pinned_only
from onnxcast.verification.comparison import Budget, Tolerance
from onnxcast.verification.layers import Layer
from onnxcast.verification.proof import Proof, against, prove, prove_within
from onnxcast.verification.prover import Prover
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.twin import build_twin

__all__ = ["Verified"]

_logger = logging.getLogger(__name__)

_HARDLY = 1.1
"""How far over the limit a result counts as that fails by other means than its twin's numbers."""


class Verified:
    """Proves results of one conversion, and looks for one that verifies.

    Args:
        run: The conversion, whose source is run for `against_source`.
        samples: All of them must verify.
        prover: Has run the source on them.
    """

    def __init__(self, run: Conversion, samples: Samples, prover: Prover) -> None:
        self._run = run
        self._samples = samples
        self._prover = prover

    @classmethod
    @contextlib.contextmanager
    def against_source(
        cls, run: Conversion, samples: Samples, tolerance: Tolerance | Budget, worker: Worker
    ) -> Iterator["Verified"]:
        """Run the source, to prove results against it for a while."""
        with contextlib.ExitStack() as stack:
            with run.clock.step("run the source"):
                reference = against(
                    run.original.again(), samples.feeds, tolerance, worker, outputs=samples.outputs
                )
                prover = stack.enter_context(reference)
            yield cls(run, samples, prover)

    def prove(self, result: Result) -> Result:
        """Prove `result`, which may fail; the report returned has the figures."""
        with self._run.clock.step("verify"):
            return _proved(result, prove(self._prover, result.model, self._run.clock.progress))

    def prove_within(self, result: Result) -> Result | None:
        """Prove `result`; None if it fails, or where nodes fall back if it leaves no room.

        The range of the samples decides which nodes do, and what they lose is most of the error.
        """
        plan = result.report.plan
        margin = MARGIN if plan is not None and plan.fallbacks else math.inf
        with self._run.clock.step("verify"):
            proof = prove_within(self._prover, result.model, margin, self._run.clock.progress)
        return None if proof is None else _proved(result, proof)

    def drawn(self, result: Result, *, asked: bool) -> Result:
        """`result` with its drawing and every layer measured, if it is proved and that is asked."""
        if not (asked and result.verified):
            return result
        result = self._run.drawn(result, asked=True)
        layers: list[Layer] = []
        with self._run.clock.step("measure layers"), collector_paused():
            try:
                twin = build_twin(self._prover.restricted(result.model)).model
                layers = self._prover.layers(twin)
            except RuntimeFailure as failure:
                _logger.warning("layers not measured: %s", failure.message)
        report = dataclasses.replace(result.report, layers=layers)
        return dataclasses.replace(result, report=report)

    def repair(self, *, exactly: bool = False, deadline: float = math.inf) -> Result | None:
        """Pin the fewest nodes with which the result verifies, after one without these pins failed.

        Args:
            exactly: Whether all of what passes may be used up; else room is left for other samples.
            deadline: When to stop, in seconds of `time.monotonic`.

        Returns:
            The best result, proved, with a record of the search; None if none verifies.

        Raises:
            VerificationError: Nothing would do, even if all is wide that may be.
        """
        run, prover = self._run, self._prover
        best: list[Result] = []
        limit = 1.0 if exactly else MARGIN

        def verify(pins: Pins) -> float:
            result = self._pinned(pins)
            proof = prove_within(prover, result.model, limit, run.clock.progress)
            if proof is None:
                return max(prover.last_used(), _HARDLY * limit)
            best[:] = [_proved(result, proof)]
            return prover.used(proof.twin_errors)

        with TemporaryFolder() as name, run.clock.step("search"):
            search = Repair(
                model=run.model,
                plan=run.plan,
                samples=self._samples.feeds,
                prover=prover,
                folder=Path(name),
                leaving=run.leaving,
                spared=run.is_forced,
                limit=limit,
                cautious=not exactly,
                verify=verify,
                progress=run.clock.progress,
                deadline=deadline,
            )
            stopped = ""
            try:
                search.run()
            except KeyboardInterrupt:
                if not best:
                    raise
                stopped = "interrupted"
            if exactly and not best:
                raise self._impossible(search.widest())
        return _searched(best[0], search.record(stopped)) if best else None

    def _pinned(self, pins: Pins) -> Result:
        """The result with some more pins."""
        with pinned_only(pins), collector_paused():
            return self._run.narrow(self._samples.origin, once=False)

    def _impossible(self, pins: Pins) -> VerificationError:
        proof = prove(self._prover, self._pinned(pins).model, self._run.clock.progress)
        why = failure_text(proof).partition(";")[0]
        return VerificationError(
            f"the budget cannot be kept even with all wide that may be: {why}; raise the budget, "
            "or take back what is narrowed on request"
        )


def _proved(result: Result, proof: Proof) -> Result:
    return dataclasses.replace(result, report=dataclasses.replace(result.report, proof=proof))


def _searched(result: Result, record: SearchRecord) -> Result:
    return dataclasses.replace(result, report=dataclasses.replace(result.report, search=record))
