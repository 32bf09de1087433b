"""One conversion: from a source to a result with its record, and the proof of it."""

import contextlib
import dataclasses
import logging
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.drawing import draw
from onnxcast.errors import RefusedError, VerificationError
from onnxcast.files import Source, collector_paused
from onnxcast.graph.check import fault
from onnxcast.graph.opsets import onnx_opset, wanted_opset
from onnxcast.graph.types import ElementTypes
from onnxcast.lock import Lock
from onnxcast.original import Original
from onnxcast.passes import LegaliseCastsPass
from onnxcast.pipeline import narrowing_passes, preparing_passes
from onnxcast.planning import (
    Plan,
    PlannedPass,
    fall_back,
    forget_pins,
    make_plan,
    native_opset,
    pin,
    pinned,
    unmultiplied,
)
from onnxcast.policy import Policy
from onnxcast.repair import MARGIN, Repair
from onnxcast.report import Report, measure, sign
from onnxcast.result import Clock, Result, Samples, failure_text
from onnxcast.search import Pins, SearchRecord, pinned_only
from onnxcast.targets import Target, why_refused
from onnxcast.verification.comparison import Budget, Tolerance
from onnxcast.verification.layers import Layer
from onnxcast.verification.observation import observed_types
from onnxcast.verification.proof import Proof, against, first_difference, prove, prove_within
from onnxcast.verification.prover import Prover
from onnxcast.verification.range_pins import out_of_range, saturating, suspicious_ranges
from onnxcast.verification.ranges import Range
from onnxcast.verification.rounding import FIRST_OPSET
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.twin import build_twin

__all__ = ["Conversion"]

logger = logging.getLogger(__name__)

# How far over the limit a result counts as that fails by other means than its twin's numbers.
_HARDLY = 1.1


_Interface = list[tuple[str | None, ir.TypeProtocol | None, str]]


def _proved(result: Result, proof: Proof) -> Result:
    return dataclasses.replace(result, report=dataclasses.replace(result.report, proof=proof))


def _searched(result: Result, record: SearchRecord) -> Result:
    return dataclasses.replace(result, report=dataclasses.replace(result.report, search=record))


def _interface(model: ir.Model) -> _Interface:
    """Names, order, types and shapes of graph inputs and outputs."""
    values = (*model.graph.inputs, *model.graph.outputs)
    return [(value.name, value.type, str(value.shape)) for value in values]


class Conversion:
    """One conversion: what is known so far, from the source to the proved result."""

    def __init__(
        self,
        source: Source,
        policy: Policy,
        target: Target,
        clock: Clock,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        self._original = Original(source, policy)
        self._model = source.model
        self._policy = policy
        self._target = target
        self._clock = clock
        self._request = request or {}
        self._opset = onnx_opset(source.model)
        self._before = measure(source.model, target)
        self._findings: list[Diagnostic] = []
        self._modified = False
        self._ranges: Mapping[str, Range] = {}
        self._leaving: dict[ir.Node, str] = {}
        self._lock: Lock | None = None

    def raise_opset(self, opset: str | int, samples: Samples | None, worker: Worker | None) -> None:
        """Raise the opset as far as asked for or needed, and check that nothing else changed.

        ``auto`` goes on to where matmul-like ops can run in the format, if the model can.
        """
        policy = self._policy
        first, last = self._target.opsets or (0, None)
        window = max(first, FIRST_OPSET if policy.is_float32r else 0), last
        version = wanted_opset(opset, self._opset, policy.dtypes, policy.token, window)
        self._raise_to(version, samples, worker)
        if opset == "auto":
            native = native_opset(self._model, policy, self._target)
            try:
                self._raise_to(native, samples, worker)
            except RefusedError as error:
                logger.info("some ops do not run in %s: %s", policy.format, error)
        if onnx_opset(self._model) != self._opset:
            message = f"opset raised from {self._opset} to {onnx_opset(self._model)}"
            self._findings.append(Diagnostic(code=Code.OPSET_RAISED, message=message))

    def _raise_to(
        self, version: int | None, samples: Samples | None, worker: Worker | None
    ) -> None:
        if version is None or version == onnx_opset(self._model):
            return
        with self._clock.step(f"raise the opset to {version}"):
            raised = self._original.raised(self._original.own(self._model), version)
            if samples is not None and worker is not None:
                changed = first_difference(self._original.again(), raised, samples.feeds, worker)
                if changed:
                    raise RefusedError(
                        f"output {changed!r} changes when the opset is raised from {self._opset} "
                        f"to {version}: export the model at opset {version}"
                    )
        self._model = raised

    def learn_types(self, samples: Samples, worker: Worker) -> None:
        """Ask onnxruntime for the types that no schema and no value_info tells."""
        types = ElementTypes(self._model)
        unknown = [
            value.name
            for node in self._model.graph
            for value in node.outputs
            if value.name and types.of(value) is None
        ]
        if unknown:
            with self._clock.step("ask onnxruntime for types"):
                try:
                    observed_types(self._model, unknown, samples.feeds, worker)
                except RuntimeFailure as failure:
                    # Those ops stay as they are; whether the source runs, the proof tells.
                    logger.info("types not learned: %s", failure.message)

    def prepare(self, *, forget: bool = False) -> None:
        """Bring the model into its plain form, on which plans are made.

        Args:
            forget: Whether pins of earlier runs go first.

        Raises:
            RefusedError: The target does not take the model, with all that it does not take.
        """
        self._model = self._original.own(self._model)
        self._modified = bool(self._findings)
        if forget:
            self._modified |= forget_pins(self._model) > 0
        self._run(preparing_passes(self._policy, self._target))
        self._check_target()

    def find_fallbacks(self, samples: Samples, worker: Worker) -> None:
        """Let nodes fall back whose values leave the format on `samples`, if there is another.

        Those that leave that one as well are left to `pin_ranges`.
        """
        other = self._policy.fallback
        if other is None:
            return
        plan = self._measure(samples, worker)
        masks = self._policy.clamp_masks
        beyond = out_of_range(plan, self._ranges, masks=masks, instead=other)
        for node, figure in out_of_range(plan, self._ranges, masks=masks).items():
            if not (node in beyond or self._is_forced(node) or pinned(node)):
                fall_back(node, figure)

    def pin_ranges(self, samples: Samples, worker: Worker, *, only_rank: bool = False) -> None:
        """Pin nodes whose values leave the format when the source runs on `samples`.

        Args:
            samples: What is run.
            worker: Runs it.
            only_rank: Whether to leave it to the search, which then looks at those nodes first.
        """
        if self._policy.format is None:
            return
        plan = self._measure(samples, worker)
        masks = self._policy.clamp_masks
        for node, figure in out_of_range(plan, self._ranges, masks=masks).items():
            if self._is_forced(node) or pinned(node):
                continue
            if only_rank:
                self._leaving[node] = figure
            else:
                pin(node, figure)

    def _measure(self, samples: Samples, worker: Worker) -> Plan:
        """Measure the values that might leave the formats of the plan as it is now; return it."""
        with self._clock.step("measure ranges"), tempfile.TemporaryDirectory() as folder:
            plan = make_plan(self._model, self._policy, self._target)
            try:
                self._ranges = suspicious_ranges(
                    self._model, plan, samples.feeds, worker, Path(folder)
                )
            except RuntimeFailure as failure:
                logger.info("ranges not measured: %s", failure.message)
        return plan

    def pin_as(self, lock: Lock | None) -> None:
        """Pin what is pinned in a report, if there is one, and let fall back what does there.

        Raises:
            InputError: A node of the report is gone, or the opset is another.
        """
        if lock is None:
            return
        self._lock = lock
        lock.check_opset(onnx_opset(self._model))
        plan = make_plan(self._model, self._policy, self._target)
        for node, (figure, level) in lock.pins(plan).items():
            pin(node, figure, level)
        for node, figure in lock.fallbacks(plan).items():
            fall_back(node, figure)

    def narrow(self, origin: str, *, once: bool = True) -> Result:
        """Carry out the plan and check the result's structure.

        Args:
            origin: Where the samples come from, for the report.
            once: Whether the prepared model may be used up.
        """
        prepared, found = self._model, list(self._findings)
        if not once:
            self._model = prepared.clone()
        interface = _interface(self._model)
        passes = narrowing_passes(self._policy, self._target)
        plan = self._run(passes)
        legalised = (each for each in passes if isinstance(each, LegaliseCastsPass))
        chains = [route for each in legalised for route in each.routes if route.stands]
        modified = sign(self._model, self._policy.token, self._target) or self._modified
        with self._clock.step("check the result"):
            assert self._keeps(interface), "graph inputs and outputs must not change"
            self._check()
            self._check_target()
        if plan is not None and self._lock is not None:
            self._lock.tell_changes(plan)
        if plan is not None:
            self._findings.extend(saturating(plan, self._ranges))
        self._findings.extend(unmultiplied(self._model, self._target))
        report = Report(
            source=self._original.path,
            token=self._policy.token,
            target=self._target,
            opset=(self._opset, onnx_opset(self._model)),
            plan=plan,
            findings=tuple(self._findings),
            chains=tuple(each for each in chains if each.chain.hops > 1),
            before=self._before,
            after=measure(self._model, self._target),
            inputs=origin,
            proof=None,
            seconds=self._clock.seconds,
            request=self._request,
        )
        result = Result(self._model, modified, report)
        if not once:
            self._model, self._findings = prepared, found
        return result

    @contextlib.contextmanager
    def against_source(
        self, samples: Samples, tolerance: Tolerance | Budget, worker: Worker
    ) -> Iterator[Prover]:
        """Run the source, to prove results against it for a while."""
        with contextlib.ExitStack() as stack:
            with self._clock.step("run the source"):
                reference = against(self._original.again(), samples.feeds, tolerance, worker)
                prover = stack.enter_context(reference)
            yield prover

    def prove(self, result: Result, prover: Prover) -> Result:
        """Prove `result`, which may fail; the report returned has the figures."""
        with self._clock.step("verify"):
            return _proved(result, prove(prover, result.model, self._clock.progress))

    def prove_within(self, result: Result, prover: Prover) -> Result | None:
        """Prove `result`; None if it fails."""
        with self._clock.step("verify"):
            proof = prove_within(prover, result.model, progress=self._clock.progress)
        return None if proof is None else _proved(result, proof)

    def drawn(self, result: Result, prover: Prover | None = None, *, asked: bool = True) -> Result:
        """`result` with a drawing in its report, and every layer measured if it is proved.

        Args:
            result: The result; one that failed its proof stays as it is.
            prover: Has run the source, if anything is proved.
            asked: Whether there shall be a drawing at all.
        """
        if not asked or (prover is not None and not result.verified):
            return result
        with self._clock.step("draw the graph"):
            drawing = draw(result.model, self._target)
        layers = [] if prover is None else self._layers(result, prover)
        report = dataclasses.replace(result.report, drawing=drawing, layers=layers)
        return dataclasses.replace(result, report=report)

    def _layers(self, result: Result, prover: Prover) -> list[Layer]:
        with self._clock.step("measure layers"), collector_paused():
            try:
                return prover.layers(build_twin(result.model).model)
            except RuntimeFailure as failure:
                logger.warning("layers not measured: %s", failure.message)
                return []

    def repair(
        self,
        samples: Samples,
        prover: Prover,
        *,
        exactly: bool = False,
        deadline: float = math.inf,
    ) -> Result | None:
        """Pin the fewest nodes with which the result verifies.

        Args:
            samples: All of them must verify.
            prover: Has run the source on them, and last a result without these pins that failed.
            exactly: Whether all of what passes may be used up; else room is left for other samples.
            deadline: When to stop, in seconds of `time.monotonic`.

        Returns:
            The best result, proved, with a record of the search; None if none verifies.

        Raises:
            VerificationError: Nothing would do, even if all is wide that may be.
        """
        best: list[Result] = []
        limit = 1.0 if exactly else MARGIN

        def verify(pins: Pins) -> float:
            with pinned_only(pins), collector_paused():
                result = self.narrow(samples.origin, once=False)
            proof = prove_within(prover, result.model, limit, self._clock.progress)
            if proof is None:
                return max(prover.last_used(), _HARDLY * limit)
            best[:] = [_proved(result, proof)]
            return prover.used(proof.twin_errors)

        with tempfile.TemporaryDirectory(prefix="onnxcast-") as name, self._clock.step("search"):
            search = Repair(
                model=self._model,
                plan=lambda: make_plan(self._model, self._policy, self._target),
                samples=samples.feeds,
                prover=prover,
                folder=Path(name),
                leaving=self._leaving,
                spared=self._is_forced,
                limit=limit,
                cautious=not exactly,
                verify=verify,
                progress=self._clock.progress,
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
                raise self._impossible(search.widest(), samples, prover)
        return _searched(best[0], search.record(stopped)) if best else None

    def _impossible(self, pins: Pins, samples: Samples, prover: Prover) -> VerificationError:
        with pinned_only(pins), collector_paused():
            result = self.narrow(samples.origin, once=False)
        proof = prove(prover, result.model, self._clock.progress)
        why = failure_text(proof).partition(";")[0]
        return VerificationError(
            f"the budget cannot be kept even with all wide that may be: {why}; raise the budget, "
            "or take back what is narrowed on request"
        )

    def _is_forced(self, node: ir.Node) -> bool:
        choice = self._policy.selection.choice(node)
        return choice is not None and choice.wish == "narrow"

    def _run(self, passes: Iterable[ir.passes.InPlacePass]) -> Plan | None:
        """Run `passes` on the model; return the plan that one of them made."""
        plan = None
        for pass_ in passes:
            with self._clock.step(type(pass_).__name__.removesuffix("Pass")):
                self._modified |= pass_(self._model).modified
            self._findings.extend(getattr(pass_, "findings", ()))
            if isinstance(pass_, PlannedPass):
                plan = pass_.plan
        return plan

    def _keeps(self, before: _Interface) -> bool:
        """Whether graph inputs and outputs are what they were, but for types asked for."""
        after = _interface(self._model)
        if not self._policy.io_types.changes:
            return after == before
        return [(name, shape) for name, _, shape in after] == [
            (name, shape) for name, _, shape in before
        ]

    def _check_target(self) -> None:
        refused = why_refused(self._model, self._target)
        if refused:
            raise RefusedError(
                f"target {self._target.architecture} does not take the model: "
                f"{'; '.join(refused)}: export it without, or give another target"
            )

    def _check(self) -> None:
        """Hold the result to the checker's full check if the source passes it, else to the basic.

        The full check goes on past an op that it does not know with half of the types, so the
        source is asked without what nobody reads, as the result is.

        Raises:
            RefusedError: The result fails.
        """
        why = fault(self._model, full=True)
        if why and fault(self._original.plain(onnx_opset(self._model)), full=True):
            why = fault(self._model, full=False)
        if why:
            raise RefusedError(
                f"the result is not valid ONNX ({why}): a fault of onnxcast; please report it"
            )
