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
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx_ir as ir

from onnxcast.files import Source, collector_paused
from onnxcast.files.temporary import TemporaryFolder
from onnxcast.verification.comparison import Budget, OutputError, Tolerance, bit_equal, worst
from onnxcast.verification.prover import Prover, refusal
from onnxcast.verification.restriction import restricted
from onnxcast.verification.scratch import is_large, place
from onnxcast.verification.session import Worker
from onnxcast.verification.twin import Twin, build_twin
from onnxcast.verification.values import Feeds

__all__ = ["Proof", "against", "first_difference", "prove", "prove_within"]


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
        tolerance: What passes where an error names no budget of its own.
        twin_errors: Worst over the samples, per output.
        as_is_errors: The same for the run as is; empty if it was not run.
        diverging: The first diverging node, of the twin or else of the run as is, with op and
            figures; "" if nothing diverges or no node of the main graph tells.
        not_compared: Outputs that were left out on request.
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
    not_compared: Sequence[str] = ()

    @property
    def ran(self) -> bool:
        """Whether there are numbers to judge by: the twin ran, and nothing refused the result."""
        return self.twin == "ran" and not self.as_is.startswith("failed")

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


@contextlib.contextmanager
def against(
    source: Source,
    feeds: Sequence[Feeds],
    tolerance: Tolerance | Budget,
    worker: Worker,
    progress: Callable[[str], None] = lambda _step: None,
    outputs: Sequence[str] | None = None,
) -> Iterator[Prover]:
    """Run `source` on `feeds`, to prove results against it for a while.

    Args:
        source: The model before.
        feeds: The samples, in the types of the source's inputs.
        tolerance: What passes.
        worker: Runs the models.
        progress: Told each step as it begins.
        outputs: Names of those to compare; all by default.

    Raises:
        RefusedError: The source itself does not run.
    """
    with TemporaryFolder() as folder:
        budget = tolerance if isinstance(tolerance, Budget) else Budget(tolerance)
        prover = Prover(source, worker, feeds, budget, pathlib.Path(folder), outputs)
        progress("run the source")
        prover.run_reference()
        yield prover


def prove(
    prover: Prover, result: ir.Model, progress: Callable[[str], None] = lambda _step: None
) -> Proof:
    """Run `result` and its twin and compare; where they do not match, look for the node.

    Args:
        prover: Has run the source.
        result: The model after; graph inputs and outputs bear the source's names.
        progress: Told each step as it begins.
    """
    result = prover.restricted(result)
    progress("run the result as is")
    as_is = _AsIs(*prover.run_as_is(result), prover.load_at_default_level())
    progress("run the twin")
    with collector_paused():
        twin = build_twin(result)
    proof = _proof(prover, as_is, twin, *prover.run_twin(twin))
    if not proof.ran or proof.ok:
        return proof
    progress("look for the first diverging node")
    twin_fails = not all(error.ok for error in proof.twin_errors)
    diverging = prover.locate(twin.model if twin_fails else result, as_is=not twin_fails)
    return dataclasses.replace(proof, diverging=diverging)


def prove_within(
    prover: Prover,
    result: ir.Model,
    margin: float = math.inf,
    progress: Callable[[str], None] = lambda _step: None,
) -> Proof | None:
    """Prove `result` as `prove` does, but stop at the first thing that does not match.

    Args:
        prover: Has run the source.
        result: The model after.
        margin: The part of the tolerance that the twin may use up; by default all of it.
        progress: Told each step as it begins.

    Returns:
        The proof; None if something does not match.
    """
    result = prover.restricted(result)
    progress("run the twin")
    with collector_paused():
        twin = build_twin(result)
    ran, errors = prover.run_twin(twin)
    if ran != "ran" or not prover.within(errors, margin):
        return None
    progress("run the result as is")
    as_is = _AsIs(*prover.run_as_is(result), prover.load_at_default_level())
    proof = _proof(prover, as_is, twin, ran, errors)
    return proof if proof.ok else None


class _AsIs(NamedTuple):
    """What became of the result itself."""

    ran: str
    errors: Sequence[OutputError]
    default_level: str


def _proof(
    prover: Prover, as_is: _AsIs, twin: Twin, ran: str, errors: Sequence[OutputError]
) -> Proof:
    proof = Proof(
        ok=all(error.ok for error in (*errors, *as_is.errors)),
        samples=prover.samples,
        reference=prover.reference,
        as_is=as_is.ran,
        twin=ran,
        default_level=as_is.default_level,
        rounded=twin.rounded,
        assumed=twin.assumed,
        tolerance=prover.budget.rest,
        twin_errors=errors,
        as_is_errors=as_is.errors,
        not_compared=prover.not_compared,
    )
    return dataclasses.replace(proof, ok=proof.ok and proof.ran)


def first_difference(
    source: Source,
    other: ir.Model,
    feeds: Sequence[Feeds],
    worker: Worker,
    outputs: Sequence[str] | None = None,
) -> str:
    """Name of the first output in which `other` differs from `source` in any bit; "" if none.

    Args:
        source: The model before.
        other: The model after; it stays as it is.
        feeds: The samples.
        worker: Runs the models.
        outputs: Names of those to compare; all by default.

    Raises:
        RefusedError: One of them does not run.
    """
    if outputs is not None:
        source = Source(restricted(source.model, outputs), None)
        other = restricted(other, outputs)
    with TemporaryFolder() as folder, refusal():
        path = source.path
        if path is None or is_large(source.model):
            path = pathlib.Path(folder, "source.onnx")
            place(source.model, path)
        wanted = worker.run(path, feeds, level="disable_all")
        place(other, pathlib.Path(folder, "other.onnx"))
        found = worker.run(pathlib.Path(folder, "other.onnx"), feeds, level="disable_all")
    for before, after in zip(wanted, found, strict=True):
        for name, value in before.items():
            if name not in after or not bit_equal(value, after[name]):
                return name
    return ""
