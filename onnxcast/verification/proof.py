"""Prove that a model's outputs match its source's, under the rounding of a real device.

Three runs in a child process, on the same samples:

1. *reference*: the source; if it holds narrow values itself, its twin;
2. *as is*: the result, where onnxruntime has the kernels, and a load at the default level;
3. *twin*: the result's rounding, spelt out in float32 (`onnxcast.verification.twin`).

A run as is proves that the model loads. Only the twin proves numbers: onnxruntime's CPU computes
float16 in float32 and lacks bfloat16.
"""

import contextlib
import dataclasses
import logging
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import RefusedError
from onnxcast.files import Source, commit
from onnxcast.verification.comparison import (
    OutputError,
    Tolerance,
    bit_equal,
    compare,
    default_tolerance,
    says_something,
    worst,
)
from onnxcast.verification.divergence import first_diverging
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.twin import Twin, build_twin, has_narrow_values, narrowest_format
from onnxcast.verification.values import Feeds, Value

__all__ = ["Proof", "first_difference", "prove"]

Outputs: TypeAlias = Sequence[Mapping[str, Value]]
"""The outputs for each sample."""

_logger = logging.getLogger(__name__)

_OP_WITHOUT_KERNEL = re.compile(r"implementation for (\w+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proof:
    """What was run, and how far the outputs are from the reference's.

    Attributes:
        ok: Whether everything that was run matches.
        samples: How many samples were run.
        reference: ``source``, or ``source's twin`` if the source holds narrow values.
        as_is: ``ran``; ``not run`` for want of a kernel or ``crashed``, which is no fault of the
            result; or ``failed``. With the cause.
        twin: ``ran``, or as for `as_is`: then nothing shows the numbers, which is a fault.
        default_level: ``loads``, or what onnxruntime said at its default optimisation level.
        rounded: How many values the twin rounds.
        assumed: Ops of many steps for which one rounding is assumed, with counts.
        tolerance: What passes.
        twin_errors: Worst over the samples, per output.
        as_is_errors: The same for the run as is; empty if it was not run.
        diverging: The first diverging node, of the twin or else of the run as is, with op and
            figures; "" if nothing diverges or no node of the main graph tells.
    """

    ok: bool
    samples: int
    reference: str
    as_is: str
    twin: str
    default_level: str
    rounded: int
    assumed: Mapping[str, int]
    tolerance: Tolerance
    twin_errors: Sequence[OutputError]
    as_is_errors: Sequence[OutputError]
    diverging: str = ""

    @property
    def worst(self) -> OutputError | None:
        """The output to name first; None for a model without outputs."""
        errors = [*self.twin_errors, *self.as_is_errors]
        return worst(errors) if errors else None

    @property
    def mismatch(self) -> str:
        """The worst output and where it comes from, for a proof that failed by its numbers."""
        output = self.worst
        assert output is not None
        found = f"output {output.name!r} does not match: {output.why}"
        if self.diverging:
            return f"{found}; first diverging node: {self.diverging}"
        return f"{found}; no node of the main graph diverges more than its inputs do"


def prove(  # noqa: PLR0913 - what is compared, on what, and two ways to talk about it
    source: Source,
    result: ir.Model,
    feeds: Sequence[Feeds],
    tolerance: Tolerance,
    worker: Worker,
    *,
    progress: Callable[[str], None] = lambda _step: None,
    diagnose: bool = True,
) -> Proof:
    """Run `source`, `result` and its twin on `feeds` and compare.

    Args:
        source: The model before.
        result: The model after; graph inputs and outputs bear the same names.
        feeds: The samples, in the types of the source's inputs.
        tolerance: What passes.
        worker: Runs the models.
        progress: Told each step as it begins.
        diagnose: Whether to look for the first diverging node where something does not match.

    Raises:
        RefusedError: The source itself does not run.
    """
    with tempfile.TemporaryDirectory(prefix="onnxcast-") as folder:
        prover = _Prover(source, worker, feeds, tolerance, pathlib.Path(folder))
        progress("run the source")
        prover.run_reference()
        progress("run the result as is")
        as_is, as_is_errors = prover.run_as_is(result)
        default_level = prover.load_at_default_level()
        progress("run the twin")
        twin = build_twin(result)
        twin_ran, twin_errors = prover.run_twin(twin)
        ran = twin_ran == "ran" and not as_is.startswith("failed")
        ok = ran and all(error.ok for error in (*twin_errors, *as_is_errors))
        diverging = ""
        if diagnose and ran and not ok:
            progress("look for the first diverging node")
            twin_fails = not all(error.ok for error in twin_errors)
            diverging = prover.locate(twin.model if twin_fails else result, as_is=not twin_fails)
    return Proof(
        ok=ok,
        samples=len(feeds),
        reference=prover.reference,
        as_is=as_is,
        twin=twin_ran,
        default_level=default_level,
        rounded=twin.rounded,
        assumed=twin.assumed,
        tolerance=tolerance,
        twin_errors=twin_errors,
        as_is_errors=as_is_errors,
        diverging=diverging,
    )


class _Prover:
    """One source, its outputs, and what is compared with them."""

    def __init__(
        self,
        source: Source,
        worker: Worker,
        feeds: Sequence[Feeds],
        tolerance: Tolerance,
        folder: pathlib.Path,
    ) -> None:
        self._worker = worker
        self._feeds = feeds
        self._tolerance = tolerance
        self._folder = folder
        self._source = source
        self._model = source.model
        self._wanted: Outputs = []
        self._wanted_as_is: Outputs = []
        self._tolerance_as_is = tolerance
        self.reference = "source"

    def run_reference(self) -> None:
        """Run the source, or its twin, and keep the outputs.

        Raises:
            RefusedError: It does not run, or gives nothing that could be compared.
        """
        if has_narrow_values(self._model):
            self._run_narrow_reference()
        else:
            with _refusal():
                self._wanted = self._run(self._model, self._source.path, "source.onnx")
            self._wanted_as_is = self._wanted
        if not any(map(says_something, self._wanted)) and self._model.graph.outputs:
            raise RefusedError(
                "the source gives nothing but NaN or empty outputs on these inputs, which proves "
                "nothing: give others, or skip the proof with --no-verify"
            )

    def _run_narrow_reference(self) -> None:
        """Run the source's twin, and the source as is: onnxruntime hides rounding in both models.

        How much it hides depends on where Casts stand, so then no run as is can be exact.
        """
        self.reference = "source's twin"
        self._model = build_twin(self._source.model).model
        with _refusal():
            self._wanted = self._run(self._model, None, "reference.onnx")
        self._wanted_as_is = self._wanted
        with contextlib.suppress(RuntimeFailure):  # then the twin is all there is to compare with
            source = self._source
            self._wanted_as_is = self._run(source.model, source.path, "source.onnx")
        usual = default_tolerance(narrowest_format(self._source.model))
        given = self._tolerance
        self._tolerance_as_is = Tolerance(max(given.max, usual.max), max(given.rms, usual.rms))

    def run_as_is(self, result: ir.Model) -> tuple[str, list[OutputError]]:
        """Run the result itself; say whether that was possible."""
        path = self._folder / "result.onnx"
        commit(result, path)
        try:
            found = self._worker.run(path, _fed(self._feeds, result), level="disable_all")
        except RuntimeFailure as failure:
            return _told(failure), []
        return "ran", _compared(self._wanted_as_is, found, self._tolerance_as_is)

    def load_at_default_level(self) -> str:
        """Load the result as an application would."""
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
        return "ran", _compared(self._wanted, found, self._tolerance)

    def locate(self, candidate: ir.Model, *, as_is: bool) -> str:
        """Look for the first node at which `candidate` diverges from what it is compared with."""
        reference = self._source.model if as_is else self._model
        tolerance = self._tolerance_as_is if as_is else self._tolerance
        feeds = (_fed(self._feeds, reference), _fed(self._feeds, candidate))
        try:
            return first_diverging(
                reference, candidate, feeds, tolerance, self._worker, self._folder
            )
        except RuntimeFailure as failure:
            _logger.info("the first diverging node is not known: %s", failure.message)
            return ""

    def _run(self, model: ir.Model, path: pathlib.Path | None, name: str) -> Outputs:
        if path is None:
            path = self._folder / name
            commit(model, path)
        return self._worker.run(path, _fed(self._feeds, model), level="disable_all")


def _compared(wanted: Outputs, found: Outputs, tolerance: Tolerance) -> list[OutputError]:
    """The worst error of each output over the samples."""
    by_output: dict[str, list[OutputError]] = {}
    for before, after in zip(wanted, found, strict=True):
        for error in compare(before, after, tolerance):
            by_output.setdefault(error.name, []).append(error)
    return [worst(errors) for errors in by_output.values()]


def first_difference(
    source: Source, other: ir.Model, feeds: Sequence[Feeds], worker: Worker
) -> str:
    """Name of the first output in which `other` differs from `source` in any bit; "" if none.

    Raises:
        RefusedError: One of them does not run.
    """
    with tempfile.TemporaryDirectory(prefix="onnxcast-") as folder, _refusal():
        path = source.path or pathlib.Path(folder, "source.onnx")
        if source.path is None:
            commit(source.model, path)
        wanted = worker.run(path, feeds, level="disable_all")
        commit(other, pathlib.Path(folder, "other.onnx"))
        found = worker.run(pathlib.Path(folder, "other.onnx"), feeds, level="disable_all")
    for before, after in zip(wanted, found, strict=True):
        for name, value in before.items():
            if name not in after or not bit_equal(value, after[name]):
                return name
    return ""


@contextlib.contextmanager
def _refusal() -> Iterator[None]:
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
