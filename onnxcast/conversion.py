"""One conversion: from a source to a result with its record."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.drawing import draw
from onnxcast.errors import RefusedError
from onnxcast.files import Source
from onnxcast.files.temporary import TemporaryFolder
from onnxcast.graph.opsets import onnx_opset, wanted_opset
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.knowledge import Knowledge
from onnxcast.lock import Lock
from onnxcast.original import Original
from onnxcast.passes import LegaliseCastsPass, TidyPass
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
from onnxcast.report import Report, measure, sign
from onnxcast.result import Clock, Result, Samples
from onnxcast.soundness import check_target, check_valid, interface, is_kept
from onnxcast.targets import Target
from onnxcast.verification.observation import observed_types
from onnxcast.verification.proof import first_difference
from onnxcast.verification.range_pins import out_of_range, saturating, suspicious_ranges
from onnxcast.verification.ranges import Range
from onnxcast.verification.rounding import FIRST_OPSET
from onnxcast.verification.session import RuntimeFailure, Worker

__all__ = ["Conversion"]

logger = logging.getLogger(__name__)


class Conversion:
    """One conversion: what is known so far, from the source to the result.

    Attributes:
        original: The source.
        model: The model as it is now; the source's until it is prepared.
        clock: Tells and times the steps.
        leaving: Nodes whose values leave the format, that a search looks at first, with the figure.
    """

    def __init__(
        self,
        source: Source,
        policy: Policy,
        target: Target,
        clock: Clock,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        self.original = Original(source, policy)
        self.model = source.model
        self._policy = policy
        self._target = target
        self.clock = clock
        self._request = request or {}
        self._opset = onnx_opset(source.model)
        self._before = measure(source.model, target)
        self._findings: list[Diagnostic] = []
        self._modified = False
        self._ranges: Mapping[str, Range] = {}
        self.leaving: dict[ir.Node, str] = {}
        self._lock: Lock | None = None
        self._known = Knowledge()

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
            native = native_opset(self.model, policy, self._target)
            try:
                self._raise_to(native, samples, worker)
            except RefusedError as error:
                logger.info("some ops do not run in %s: %s", policy.format, error)
        if onnx_opset(self.model) != self._opset:
            message = f"opset raised from {self._opset} to {onnx_opset(self.model)}"
            self._findings.append(Diagnostic(code=Code.OPSET_RAISED, message=message))

    def _raise_to(
        self, version: int | None, samples: Samples | None, worker: Worker | None
    ) -> None:
        if version is None or version == onnx_opset(self.model):
            return
        with self.clock.step(f"raise the opset to {version}"):
            raised = self.original.raised(self.original.own(self.model), version)
            if samples is not None and worker is not None:
                changed = first_difference(
                    self.original.again(), raised, samples.feeds, worker, samples.outputs
                )
                if changed:
                    raise RefusedError(
                        f"output {changed!r} changes when the opset is raised from {self._opset} "
                        f"to {version}: export the model at opset {version}"
                    )
        self.model = raised

    def learn_types(self, samples: Samples, worker: Worker) -> None:
        """Ask onnxruntime for the types that no schema and no value_info tells."""
        types = ElementTypes(self.model)
        unknown = [
            value.name
            for node in self.model.graph
            for value in node.outputs
            if value.name and types.of(value) is None
        ]
        if unknown:
            with self.clock.step("ask onnxruntime for types"):
                try:
                    observed_types(self.model, unknown, samples.feeds, worker)
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
        self.model = self.original.own(self.model)
        self._modified = bool(self._findings)
        if forget:
            self._modified |= forget_pins(self.model) > 0
        self._run(preparing_passes(self._policy, self._target))
        check_target(self.model, self._target)

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
            if not (node in beyond or self.is_forced(node) or pinned(node)):
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
            if self.is_forced(node) or pinned(node):
                continue
            if only_rank:
                self.leaving[node] = figure
            else:
                pin(node, figure)

    def _measure(self, samples: Samples, worker: Worker) -> Plan:
        """Measure the values that might leave the formats of the plan as it is now; return it."""
        with self.clock.step("measure ranges"), TemporaryFolder() as folder:
            plan = self.plan()
            try:
                self._ranges = suspicious_ranges(
                    self.model, plan, samples.feeds, worker, Path(folder)
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
        lock.check_opset(onnx_opset(self.model))
        plan = self.plan()
        for node, (figure, level) in lock.pins(plan).items():
            pin(node, figure, level)
        for node, figure in lock.fallbacks(plan).items():
            fall_back(node, figure)

    def plan(self) -> Plan:
        """The plan of the model as it is now."""
        return make_plan(self.model, self._policy, self._target, self._known.planned(self.model))

    def narrow(self, origin: str, *, once: bool = True) -> Result:
        """Carry out the plan and check the result's structure.

        Args:
            origin: Where the samples come from, for the report.
            once: Whether the prepared model may be used up.
        """
        prepared, found, known = self.model, list(self._findings), self._known
        if not once:
            self.model, self._known = prepared.clone(), Knowledge()
        before = interface(self.model)
        passes = narrowing_passes(self._policy, self._target)
        self._known.shapes = Shapes(self.model)
        plan = self._run(passes)
        legalised = (each for each in passes if isinstance(each, LegaliseCastsPass))
        chains = [route for each in legalised for route in each.routes if route.stands]
        modified = sign(self.model, self._policy.token, self._target) or self._modified
        with self.clock.step("check the result"):
            kept = is_kept(before, self.model, but_for_types=self._policy.io_types.changes)
            assert kept, "graph inputs and outputs must not change"
            finish_check = check_valid(self.model, self.original)
            types = ElementTypes(self.model, in_functions=True) if self._target.casts else None
            after = measure(self.model, self._target, self._known.shapes, types)
            not_taken = list(unmultiplied(self.model, self._target, types))
            finish_check()
            check_target(self.model, self._target)
        if plan is not None and self._lock is not None:
            self._lock.tell_changes(plan)
        if plan is not None:
            self._findings.extend(saturating(plan, self._ranges))
        self._findings.extend(not_taken)
        report = Report(
            source=self.original.path,
            token=self._policy.token,
            target=self._target,
            opset=(self._opset, onnx_opset(self.model)),
            plan=plan,
            findings=tuple(self._findings),
            chains=tuple(each for each in chains if each.chain.hops > 1),
            before=self._before,
            after=after,
            inputs=origin,
            proof=None,
            seconds=self.clock.seconds,
            request=self._request,
        )
        result = Result(self.model, modified, report, self.original.holder)
        if not once:
            self.model, self._findings, self._known = prepared, found, known
        return result

    def drawn(self, result: Result, *, asked: bool) -> Result:
        """`result` with a drawing in its report, if that is asked for."""
        if not asked:
            return result
        with self.clock.step("draw the graph"):
            drawing = draw(result.model, self._target)
        report = dataclasses.replace(result.report, drawing=drawing)
        return dataclasses.replace(result, report=report)

    def is_forced(self, node: ir.Node) -> bool:
        """Whether a node is narrowed on request, so that it must not be pinned."""
        choice = self._policy.selection.choice(node)
        return choice is not None and choice.wish == "narrow"

    def _run(self, passes: Iterable[ir.passes.InPlacePass]) -> Plan | None:
        """Run `passes` on the model; return the plan that one of them made."""
        plan, is_tidy = None, False
        for pass_ in passes:
            tidies = isinstance(pass_, TidyPass)
            if tidies and is_tidy:
                continue
            self._known.tell(pass_, self.model)
            with self.clock.step(type(pass_).__name__.removesuffix("Pass")):
                modified = pass_(self.model).modified
            is_tidy = tidies or (is_tidy and not modified)
            self._known.hear(pass_, modified=modified)
            self._modified |= modified
            self._findings.extend(getattr(pass_, "findings", ()))
            if isinstance(pass_, PlannedPass):
                plan = pass_.plan
        return plan
