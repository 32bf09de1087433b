"""The public functions: convert a model and prove it, show a plan, verify any two models."""

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import CheckerPass

from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.errors import InputError, RefusedError, VerificationError
from onnxcast.files import Progress, Source, check_output, commit, read_model
from onnxcast.formats import FLOAT32, Format, of
from onnxcast.graph.opsets import onnx_opset, opset_for_cast, raise_opset
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_graphs
from onnxcast.pipeline import build_pipeline
from onnxcast.planning import Plan, PlannedPass, make_plan
from onnxcast.policy import Policy, make_policy
from onnxcast.report import Report, measure, versions
from onnxcast.targets import Target, get_target
from onnxcast.verification.comparison import Tolerance, default_tolerance
from onnxcast.verification.feeds import FeedSource, input_specs, load_feeds, random_feeds
from onnxcast.verification.observation import observed_types
from onnxcast.verification.proof import Proof, first_difference, prove
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

__all__ = ["Result", "Samples", "optimize", "plan", "verify"]

logger = logging.getLogger(__name__)

_PROVENANCE = ("onnxcast.version", "onnxcast.token", "onnxcast.target")


@dataclasses.dataclass(frozen=True)
class Samples:
    """What a model is run on.

    Attributes:
        feeds: One dict per sample.
        origin: Where they came from, for people.
    """

    feeds: Sequence[Feeds]
    origin: str


@dataclasses.dataclass(frozen=True)
class Result:
    """A converted model and the record of its making.

    Attributes:
        model: Always a new model: the caller's is never changed.
        modified: Whether it differs from the source.
        report: Decisions, changes, sizes, proof.
    """

    model: ir.Model
    modified: bool
    report: Report

    def to_proto(self) -> onnx.ModelProto:
        """The model as a proto, its weights narrowed and in memory."""
        return ir.to_proto(self.model)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress | None = None,
    ) -> list[Path]:
        """Write the model in one commit; return its files.

        Args:
            path: The ``.onnx`` to write.
            force: Whether it may be the source itself.
            progress: Told the bytes done and the bytes in all.

        Raises:
            InputError: `path` cannot be written.
        """
        source = Path(self.report.source) if self.report.source else None
        check_output(Path(path), source, force=force)
        return commit(self.model, Path(path), progress=progress)


def plan(  # noqa: PLR0913 - one keyword per option, as on the command line
    model: object,
    *,
    fp32_cast: str | None = None,
    scope: str | None = None,
    dtype: str | None = None,
    target: str | Target | None = None,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
) -> Plan:
    """Show which format each type group of a model would get, and why; nothing is changed.

    The arguments are those of `optimize`.

    Raises:
        InputError: A bad model or option.
    """
    chosen = get_target(target)
    policy = make_policy(
        fp32_cast=fp32_cast,
        scope=scope,
        dtype=dtype,
        preferred=chosen.preferred,
        keep_ops=keep_ops,
        keep_nodes=keep_nodes,
    )
    return make_plan(read_model(model).model, policy, chosen)


def optimize(  # noqa: PLR0913 - one keyword per option, as on the command line
    model: object,
    *,
    fp32_cast: str | None = None,
    scope: str | None = None,
    dtype: str | None = None,
    target: str | Target | None = None,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
    io_types: str = "keep",
    inputs: FeedSource | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    tolerance: float | Tolerance | None = None,
    verify: bool = True,
    opset: str | int = "auto",
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Convert a float32 model to mixed precision and prove that its outputs still match.

    Args:
        model: A path, an `onnx.ModelProto`, an `onnx_ir.Model` or an object whose ``.model`` is
            one (``torch.onnx.ONNXProgram``). It is never changed.
        fp32_cast: A token such as ``all-fp16`` or ``matmult``; or give `scope` and `dtype`.
        scope: ``all`` (the default), ``matmult`` or ``none``.
        dtype: ``fp16`` or ``bf16``; by default the format that the target prefers.
        target: A target or its name; by default the generic one.
        keep_ops: Op types that stay float32 (shell patterns).
        keep_nodes: Names of nodes that stay float32 (shell patterns).
        io_types: ``keep``: types of graph inputs and outputs are unchanged.
        inputs: Samples for the proof: an ``.npz``, a folder of them, an ONNX ``test_data_set_*``
            folder, or dicts of arrays. By default one sample is made up.
        input_shapes: Shapes of inputs with free dimensions, for the made-up sample.
        tolerance: Largest error that passes, relative to the largest magnitude of an output; by
            default 1e-2 for float16 and 6e-2 for bfloat16.
        verify: Whether to prove the result.
        opset: ``auto`` raises the model's opset as far as the format needs; ``keep`` refuses
            instead; a number raises it to that one.
        progress: Told each step as it begins.

    Raises:
        InputError: A bad model, option or sample.
        RefusedError: No model can be made under these options.
        VerificationError: The result's outputs do not match; its text names the worst output and
            the first diverging node.
    """
    chosen = get_target(target)
    policy = make_policy(
        fp32_cast=fp32_cast,
        scope=scope,
        dtype=dtype,
        preferred=chosen.preferred,
        keep_ops=keep_ops,
        keep_nodes=keep_nodes,
    )
    if io_types != "keep":
        raise InputError(f"io_types {io_types!r}: only 'keep' is known; leave it out")
    clock = _Clock(progress)
    with clock.step("read the model"):
        source = read_model(model)
    run = _Run(source, policy, chosen, clock)
    if not verify:
        run.raise_opset(opset, None, None)
        return run.convert("not verified")
    samples = _samples(source.model, inputs, input_shapes)
    with Worker() as worker:
        run.raise_opset(opset, samples, worker)
        run.learn_types(samples, worker)
        result = run.convert(samples.origin)
        limit = _tolerance(tolerance, policy.format or FLOAT32)
        return run.prove(result, samples, limit, worker)


def verify(
    before: object,
    after: object,
    *,
    inputs: FeedSource | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    tolerance: float | Tolerance | None = None,
    progress: Callable[[str], None] | None = None,
) -> Proof:
    """Compare two models, under the rounding that the narrow values of `after` stand for.

    Args:
        before: The reference, as `optimize` takes it.
        after: The model to prove; its graph inputs bear the same names.
        inputs: Samples, as for `optimize`.
        input_shapes: Shapes of inputs with free dimensions, for the made-up sample.
        tolerance: Largest error that passes; by default that of the widest rounding in `after`.
        progress: Told each step as it begins.

    Returns:
        The figures; its `ok` says whether all of it matches.

    Raises:
        InputError: A bad model or sample.
        RefusedError: `before` does not run.
    """
    source, result = read_model(before), read_model(after)
    wanted = [value.name for value in source.model.graph.inputs]
    found = [value.name for value in result.model.graph.inputs]
    if sorted(map(str, wanted)) != sorted(map(str, found)):
        raise InputError(
            f"the second model has inputs {', '.join(map(str, found))}, the first has "
            f"{', '.join(map(str, wanted))}: give two models with the same inputs"
        )
    samples = _samples(source.model, inputs, input_shapes)
    limit = _tolerance(tolerance, _narrowest(result.model))
    with Worker() as worker:
        step = progress or (lambda _step: None)
        return prove(source, result.model, samples.feeds, limit, worker, step)


class _Clock:
    """Tells steps as they begin and keeps their seconds."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self.progress = progress or (lambda _step: None)
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        logger.debug("%s", name)
        self.progress(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class _Run:
    """One conversion: what is known so far, from the source to the proved result."""

    def __init__(self, source: Source, policy: Policy, target: Target, clock: _Clock) -> None:
        self._source = source
        self._model = source.model
        self._policy = policy
        self._target = target
        self._clock = clock
        self._opset = onnx_opset(source.model)
        self._before = measure(source.model)
        self._findings: list[Diagnostic] = []

    def raise_opset(self, opset: str | int, samples: Samples | None, worker: Worker | None) -> None:
        """Raise the opset as far as asked for or needed, and check that nothing else changed."""
        version = self._wanted_opset(opset)
        if version is None or version == self._opset:
            return
        with self._clock.step(f"raise the opset to {version}"):
            raised = raise_opset(self._own_model(), version)
            if samples is not None and worker is not None:
                changed = first_difference(self._original(), raised, samples.feeds, worker)
                if changed:
                    raise RefusedError(
                        f"output {changed!r} changes when the opset is raised from {self._opset} "
                        f"to {version}: export the model at opset {version}"
                    )
        self._model = raised
        message = f"opset raised from {self._opset} to {version}"
        self._findings.append(Diagnostic(code=Code.OPSET_RAISED, message=message))

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
                observed_types(self._model, unknown, samples.feeds, worker)

    def convert(self, origin: str) -> Result:
        """Run the passes and check the result's structure."""
        self._model = self._own_model()
        interface = _interface(self._model)
        made: Plan | None = None
        modified = self._model is not self._source.model and bool(self._findings)
        for pass_ in build_pipeline(self._policy, self._target):
            with self._clock.step(type(pass_).__name__.removesuffix("Pass")):
                modified |= pass_(self._model).modified
            self._findings.extend(getattr(pass_, "findings", ()))
            if isinstance(pass_, PlannedPass):
                made = pass_.plan
        modified |= self._sign()
        with self._clock.step("check the result"):
            assert _interface(self._model) == interface, "graph inputs and outputs must not change"
            _check(self._model)
        report = Report(
            source="" if self._source.path is None else str(self._source.path),
            token=self._policy.token,
            target=self._target.name,
            opset=(self._opset, onnx_opset(self._model)),
            plan=made,
            findings=tuple(self._findings),
            before=self._before,
            after=measure(self._model),
            inputs=origin,
            proof=None,
            seconds=self._clock.seconds,
        )
        return Result(self._model, modified, report)

    def prove(
        self, result: Result, samples: Samples, tolerance: Tolerance, worker: Worker
    ) -> Result:
        """Verify `result`; its report then holds the figures."""
        with self._clock.step("verify"):
            proof = prove(
                self._original(),
                result.model,
                samples.feeds,
                tolerance,
                worker,
                self._clock.progress,
            )
        if not proof.ok:
            raise VerificationError(failure_text(proof))
        report = dataclasses.replace(result.report, proof=proof)
        return dataclasses.replace(result, report=report)

    def _wanted_opset(self, opset: str | int) -> int | None:
        needed = self._opset
        if self._policy.format is not None and self._policy.format.dtype is not None:
            needed = opset_for_cast(self._policy.format.dtype, self._opset or 13)
        if opset == "auto":
            return needed
        if opset == "keep":
            if needed != self._opset:
                raise RefusedError(
                    f"{self._policy.token} needs opset {needed}, the model is at {self._opset} "
                    "and is to keep it: allow --opset auto"
                )
            return self._opset
        if not str(opset).isdigit():
            raise InputError(f"opset {opset!r}: auto, keep or a number is wanted")
        if needed is not None and int(opset) < needed:
            raise InputError(
                f"opset {opset} is less than {self._policy.token} on this model needs: "
                f"give {needed} or more"
            )
        return int(opset)

    def _own_model(self) -> ir.Model:
        """A model to change, with the source still to be had: from its path, or as a copy."""
        if self._model is self._source.model and self._source.path is None:
            return self._model.clone()
        return self._model

    def _original(self) -> Source:
        """The source as it came."""
        if self._source.path is None:
            return self._source
        return read_model(self._source.path)

    def _sign(self) -> bool:
        """Write where the model comes from into its metadata; say whether that changed it."""
        values = (versions()["onnxcast"], self._policy.token, self._target.name)
        signature = dict(zip(_PROVENANCE, values, strict=True))
        known = self._model.metadata_props
        if all(known.get(key) == value for key, value in signature.items()):
            return False
        known.update(signature)
        return True


def failure_text(proof: Proof) -> str:
    """One line on why a proof failed: the worst output, its figures, the first diverging node."""
    if proof.as_is.startswith("failed"):
        return f"onnxruntime does not take the result as it is: it {proof.as_is}"
    worst = proof.worst
    assert worst is not None
    where = proof.diverging or "no node of the main graph"
    return (
        f"output {worst.name!r} does not match: {worst.why}; first diverging node: {where}; "
        "keep that node or its op wide, or raise the tolerance"
    )


def _samples(
    model: ir.Model,
    inputs: FeedSource | None,
    shapes: Mapping[str, tuple[int, ...]] | None,
) -> Samples:
    specs = input_specs(model)
    if inputs is None:
        return Samples(random_feeds(specs, shapes=shapes or {}), "1 made-up sample, seed 0")
    if shapes:
        raise InputError("input shapes are for a made-up sample: give them or inputs, not both")
    feeds = load_feeds(inputs, specs)
    origin = str(inputs) if isinstance(inputs, str | os.PathLike) else "memory"
    return Samples(feeds, f"{len(feeds)} sample{'s' if len(feeds) > 1 else ''} from {origin}")


def _tolerance(given: float | Tolerance | None, narrow: Format) -> Tolerance:
    if given is None:
        return default_tolerance(narrow)
    return given if isinstance(given, Tolerance) else Tolerance(given, given)


def _narrowest(model: ir.Model) -> Format:
    """The format with the fewest significant bits among the float tensors of `model`."""
    types = ElementTypes(model)
    found = [
        of(dtype)
        for graph in main_graphs(model)
        for node in graph
        for value in node.outputs
        if (dtype := types.dtype(value)) is not None and dtype.is_floating_point()
    ]
    return min(found, key=lambda format_: format_.significand, default=FLOAT32)


def _interface(model: ir.Model) -> list[tuple[str | None, str, str]]:
    """Names, order, types and shapes of graph inputs and outputs."""
    values = (*model.graph.inputs, *model.graph.outputs)
    return [(value.name, str(value.type), str(value.shape)) for value in values]


def _check(model: ir.Model) -> None:
    try:
        CheckerPass(full_check=True)(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RefusedError(
            f"the result is not valid ONNX ({reason}): if onnx.checker.check_model(full_check=True)"
            " accepts the source, this is a fault of onnxcast; please report it"
        ) from None
