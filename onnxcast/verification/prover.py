"""One source run on some samples, and results compared with it, as they are and by their twins."""

import contextlib
import logging
import math
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError, RefusedError
from onnxcast.files import Source, commit
from onnxcast.verification.comparison import (
    Budget,
    OutputError,
    Tolerance,
    compare,
    default_tolerance,
    over_samples,
    says_something,
)
from onnxcast.verification.divergence import first_diverging
from onnxcast.verification.layers import Layer, measure_layers
from onnxcast.verification.memory import lacking_room
from onnxcast.verification.metrics import Metric
from onnxcast.verification.restriction import restricted
from onnxcast.verification.scratch import is_large, place
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.twin import Twin, build_twin, has_narrow_values, narrowest_format
from onnxcast.verification.values import Feeds, Value

__all__ = ["Prover", "refusal"]

Outputs: TypeAlias = Sequence[Mapping[str, Value]]
"""The outputs for each sample."""

_logger = logging.getLogger(__name__)

_OVER = math.nextafter(1.0, 2.0)

_OP_WITHOUT_KERNEL = re.compile(r"implementation for (\w+)")


class Prover:
    """One source, its outputs on some samples, and what is compared with them.

    Args:
        source: The model before.
        worker: Runs the models.
        feeds: The samples, in the types of the source's inputs.
        budget: What passes.
        folder: For copies of the models.
        outputs: Names of those to compare; all by default.

    Attributes:
        not_compared: The other outputs.
    """

    def __init__(
        self,
        source: Source,
        worker: Worker,
        feeds: Sequence[Feeds],
        budget: Budget,
        folder: pathlib.Path,
        outputs: Sequence[str] | None = None,
    ) -> None:
        self._outputs = outputs
        self._lacking = ""
        names = [value.name or "" for value in source.model.graph.outputs]
        self.not_compared = [name for name in names if outputs is not None and name not in outputs]
        if self.not_compared:
            source = Source(self.restricted(source.model), None)
        self._worker = worker
        self._feeds = feeds
        self.budget = budget
        self.samples = len(feeds)
        self._folder = folder
        self._source = source
        self._model = source.model
        self._wanted: Outputs = []
        self._wanted_as_is: Outputs = []
        self._budget_as_is = budget
        self._last: Sequence[OutputError] = []
        self._shares = [0.0]
        self.reference = "source"

    def restricted(self, model: ir.Model) -> ir.Model:
        """`model`, or what of it gives the outputs that are compared."""
        if not self.not_compared:
            return model
        return restricted(model, self._outputs or ())

    def run_reference(self) -> None:
        """Run the source, or its twin, and keep the outputs.

        Raises:
            RefusedError: It does not run, or gives nothing that could be compared.
        """
        if has_narrow_values(self._model):
            self._run_narrow_reference()
        else:
            with refusal():
                self._wanted = self._run(self._model, self._source.path, "source.onnx")
            self._wanted_as_is = self._wanted
        if not any(map(says_something, self._wanted)) and self._model.graph.outputs:
            raise RefusedError(
                "the source gives nothing but NaN or empty outputs on these inputs, which proves "
                "nothing: give others, or skip the proof with --no-verify"
            )
        self._check_labels()

    def _check_labels(self) -> None:
        """Refuse labels that are not one for each row of their output."""
        for name, limit in self.budget.limits.items():
            if name in self.not_compared:
                continue
            for number, labels in enumerate(limit.labels):
                value = self._wanted[number].get(name)
                if not isinstance(value, np.ndarray) or labels.shape != value.shape[:-1]:
                    found = list(value.shape[:-1]) if isinstance(value, np.ndarray) else "none"
                    raise InputError(
                        f"labels of output {name!r}, sample {number}: they have shape "
                        f"{list(labels.shape)}, the output without its last axis has {found}; "
                        "give one label for each"
                    )

    def _run_narrow_reference(self) -> None:
        """Run the source's twin, and the source as is: onnxruntime hides rounding in both models.

        How much it hides depends on where Casts stand, so then no run as is can be exact.
        """
        self.reference = "source's twin"
        self._model = build_twin(self._source.model).model
        with refusal():
            self._wanted = self._run(self._model, None, "reference.onnx")
        self._wanted_as_is = self._wanted
        with contextlib.suppress(RuntimeFailure):  # then the twin is all there is to compare with
            source = self._source
            self._wanted_as_is = self._run(source.model, source.path, "source.onnx")
        usual = default_tolerance(narrowest_format(self._source.model))
        given = self.budget.rest
        rest = Tolerance(max(given.max, usual.max), max(given.rms, usual.rms))
        self._budget_as_is = Budget(rest)

    def limit_of(self, name: str) -> float:
        """About the relative error of an output that uses up what passes."""
        return math.inf if name in self.not_compared else self.budget.relative(name)

    def within(self, errors: Sequence[OutputError], margin: float) -> bool:
        """Whether all errors pass with that much of the tolerance."""
        return all(error.ok and error.used <= margin for error in errors)

    def used(self, errors: Sequence[OutputError]) -> float:
        """The share of what passes that errors use up; inf if one is beyond measure."""
        shares = (each.used if each.ok else max(each.used, _OVER) for each in errors)
        return max(shares, default=0.0)

    def last_used(self) -> float:
        """The share of what passes that the last twin used up."""
        return self.used(self._last)

    def worst_sample(self) -> int:
        """The number of the sample on which the last twin was farthest from the source."""
        return self._shares.index(max(self._shares))

    def telling_samples(self) -> list[int]:
        """The numbers of the samples to try pins on: the worst, or all if labels are counted."""
        counted = any(limit.metric is Metric.TOP1 for limit in self.budget.limits.values())
        return list(range(self.samples)) if counted else [self.worst_sample()]

    def unequal(self) -> list[str]:
        """Outputs of whole numbers or truth values that the last twin did not give alike."""
        counted = {
            name
            for outputs in self._wanted
            for name, value in outputs.items()
            if isinstance(value, np.ndarray) and value.dtype.kind in "iub"
        }
        return [each.name for each in self._last if each.name in counted and not each.ok]

    def error(self, outputs: Mapping[int, Mapping[str, Value]]) -> float:
        """How far outputs are from the source's, in shares of what passes, by sample."""
        numbers, wanted = list(outputs), [self._wanted[number] for number in outputs]
        found = [self._chosen(each) for each in outputs.values()]
        return self.used(_compared(wanted, found, self.budget, numbers))

    def _chosen(self, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
        return {name: value for name, value in outputs.items() if name not in self.not_compared}

    def disturbance(self, outputs: Mapping[str, Value], sample: int) -> float:
        """Much like `error` for one sample, but with a figure for all that is at all comparable.

        Labels are not looked at, as few rounding errors change what they are compared with.
        """
        by_figure = {
            name: limit
            for name, limit in self.budget.limits.items()
            if limit.metric is not Metric.TOP1
        }
        budget = Budget(self.budget.rest, by_figure)
        errors = compare(self._wanted[sample], self._chosen(outputs), budget, sample)
        shares = (each.used if each.used < math.inf else 1 + each.figure for each in errors)
        return max(shares, default=0.0)

    def run_as_is(self, result: ir.Model) -> tuple[str, list[OutputError]]:
        """Run the result itself; say whether that was possible."""
        self._lacking = lacking_room(result, self._folder)
        if self._lacking:
            return f"not run ({self._lacking})", []
        path = self._folder / "result.onnx"
        commit(result, path)
        try:
            found = self._worker.run(path, _fed(self._feeds, result), level="disable_all")
        except RuntimeFailure as failure:
            return _told(failure), []
        return "ran", _compared(self._wanted_as_is, found, self._budget_as_is)

    def load_at_default_level(self) -> str:
        """Load the result as an application would."""
        if self._lacking:
            return f"not run ({self._lacking})"
        try:
            self._worker.load(self._folder / "result.onnx", "default")
        except RuntimeFailure as failure:
            return _told(failure)
        return "loads"

    def run_twin(self, twin: Twin) -> tuple[str, list[OutputError]]:
        """Run the twin; say whether that was possible."""
        try:
            found = self._run(twin.model, None, "twin.onnx")
        except RuntimeFailure as failure:
            return _told(failure), []
        self._last = _compared(self._wanted, found, self.budget)
        self._shares = [self.error({sample: each}) for sample, each in enumerate(found)]
        return "ran", self._last

    def layers(self, candidate: ir.Model, *, as_is: bool = False) -> list[Layer]:
        """Compare `candidate`, a twin or a result, with the source value by value.

        Raises:
            RuntimeFailure: One of them does not run with other outputs.
        """
        reference = self._reference(as_is)
        tolerance = (self._budget_as_is if as_is else self.budget).rest
        feeds = (_fed(self._feeds, reference), _fed(self._feeds, candidate))
        found = measure_layers(reference, candidate, feeds, tolerance, self._worker, self._folder)
        return list(found)

    def locate(self, candidate: ir.Model, *, as_is: bool) -> str:
        """Look for the first node at which `candidate` diverges from what it is compared with."""
        try:
            return first_diverging(self._reference(as_is), self.layers(candidate, as_is=as_is))
        except RuntimeFailure as failure:
            _logger.info("the first diverging node is not known: %s", failure.message)
            return ""

    def _reference(self, as_is: bool) -> ir.Model:
        return self._source.model if as_is else self._model

    def _run(self, model: ir.Model, path: pathlib.Path | None, name: str) -> Outputs:
        if path is None or is_large(model):
            path = self._folder / name
            place(model, path)
        return self._worker.run(path, _fed(self._feeds, model), level="disable_all")


def _compared(
    wanted: Outputs, found: Outputs, budget: Budget, numbers: Sequence[int] | None = None
) -> list[OutputError]:
    """The error of each output over the samples, which have these numbers."""
    by_output: dict[str, list[OutputError]] = {}
    for sample, (before, after) in enumerate(zip(wanted, found, strict=True)):
        number = sample if numbers is None else numbers[sample]
        for error in compare(before, after, budget, number):
            by_output.setdefault(error.name, []).append(error)
    return [over_samples(errors, budget) for errors in by_output.values()]


@contextlib.contextmanager
def refusal() -> Iterator[None]:
    """Turn a failure to run the source into what the user can do about it."""
    try:
        yield
    except RuntimeFailure as failure:
        raise RefusedError(
            f"onnxruntime does not run the source on these inputs ({failure.message[:300]}): "
            "give inputs that it takes, or skip the proof with --no-verify"
        ) from None


def _told(failure: RuntimeFailure) -> str:
    if failure.kind == "not_implemented":
        op = _OP_WITHOUT_KERNEL.search(failure.message)
        return f"not run (no kernel: {op.group(1) if op else failure.message[:200]})"
    if failure.kind == "crash":
        return f"crashed ({failure.message[:200]})"
    return f"failed to {failure.kind} ({failure.message[:300]})"


def _fed(feeds: Sequence[Feeds], model: ir.Model) -> list[Feeds]:
    """The samples in the float types that `model` declares, which may be another's than theirs."""
    declared = {value.name: value.dtype for value in model.graph.inputs}

    def converted(name: str, value: Value) -> Value:
        dtype = declared.get(name)
        if dtype is None or not isinstance(value, np.ndarray):
            return value
        if formats.of(dtype).kind is not formats.Kind.FLOAT or value.dtype == dtype.numpy():
            return value
        return value.astype(dtype.numpy())

    return [{name: converted(name, value) for name, value in sample.items()} for sample in feeds]
