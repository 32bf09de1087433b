"""The public functions that run models: convert one and prove it, verify any two."""

import inspect
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import onnx_ir as ir

from onnxcast.conversion import Conversion
from onnxcast.errors import InputError, VerificationError
from onnxcast.files import collector_paused
from onnxcast.formats import FLOAT32R_BITS
from onnxcast.lock import asked, passes_asked, read_lock
from onnxcast.original import read_source
from onnxcast.pipeline import requested
from onnxcast.policy import Chooser, make_policy
from onnxcast.proving import budget_of, check_proof_options, samples_of, tolerance_of
from onnxcast.result import Clock, Result, failure_text, save_together
from onnxcast.targets import Target
from onnxcast.verification.comparison import Tolerance
from onnxcast.verification.feeds import FeedSource, input_specs
from onnxcast.verification.proof import Proof, against, prove
from onnxcast.verification.session import Worker
from onnxcast.verification.twin import narrowest_format

__all__ = ["Result", "optimize", "save_together", "verify"]

_DEFAULTS = {
    **{
        name: each.default
        for name, each in inspect.signature(make_policy).parameters.items()
        if name != "preferred"
    },
    "opset": "auto",
    "forget_pins": False,
}
"""What a plan decides, with what is asked for by default."""


def optimize(  # noqa: PLR0913 - one keyword per option, as on the command line
    model: object,
    *,
    fp32_cast: str | None = None,
    scope: str | None = None,
    dtype: str | None = None,
    target: str | os.PathLike[str] | Target | None = None,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
    narrow_ops: Iterable[str] = (),
    narrow_nodes: Iterable[str] = (),
    op_block_list: Iterable[str] | None = None,
    node_block_list: Iterable[str] | None = None,
    policy: Chooser | None = None,
    functions: str = "specialise",
    matmul_output: str = "narrow",
    inline_cast: bool = True,
    clamp_masks: bool = False,
    cast_folding: str = "exact",
    fp32r_bits: int = FLOAT32R_BITS,
    io_types: str | Mapping[str, str] = "keep",
    keep_io_types: bool | Iterable[str] | None = None,
    cast_bridges: str = "native",
    illegal_casts: str = "refuse",
    require_exact_chains: bool = False,
    minimise: str = "bytes",
    inputs: FeedSource | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    tolerance: float | Tolerance | None = None,
    max_error: float | Mapping[str, float] | None = None,
    metric: str | None = None,
    budget_seconds: float | None = None,
    plan: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    verify: bool = True,
    verify_outputs: Iterable[str] | None = None,
    repair: bool = True,
    forget_pins: bool = False,
    opset: str | int = "auto",
    drawing: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Convert a float32 model to mixed precision and prove that its outputs still match.

    Patterns are shell patterns, or regular expressions after ``re:``. A node's name counts more
    than its op type, and both more than `policy`. What is narrowed on request is narrowed whatever
    its op means, but never against its schema, and no constant becomes infinite.

    Args:
        model: A path, an `onnx.ModelProto`, an `onnx_ir.Model` or an object whose ``.model`` is
            one (``torch.onnx.ONNXProgram``). It is never changed.
        fp32_cast: A token such as ``all-fp16`` or ``matmult``; or give `scope` and `dtype`.
        scope: ``all`` (the default), ``matmult``, ``inputs`` or ``none``.
        dtype: ``fp16``, ``bf16``, ``fp32r``, ``fp8e4``, or ``mixed``: float16, and bfloat16 for
            nodes whose values leave the range of float16 on `inputs`. By default what the target
            prefers.
        target: A target, its name or a path to its profile; by default the generic one.
        keep_ops: Op types that stay float32.
        keep_nodes: Names of nodes that stay float32.
        narrow_ops: Op types that are narrowed.
        narrow_nodes: Names of nodes that are narrowed.
        op_block_list: Another name for `keep_ops`.
        node_block_list: Another name for `keep_nodes`.
        policy: A function of a node that answers ``"narrow"``, ``"wide"`` or None.
        functions: ``specialise`` narrows the bodies of model-local functions per call type,
            ``inline`` inlines them first, ``keep`` leaves them. Calls take and give float32.
        matmul_output: ``narrow``, or ``wide`` to compute matmul-like ops in float32 on operands
            that were rounded to the format.
        inline_cast: Whether constants are stored in the format that their Cast gives.
        clamp_masks: Whether mask constants below the format's range become its lowest number.
        cast_folding: ``exact``, or ``drop-narrowing`` to remove round trips of the source to a
            narrower float and back, which changes values: each loses its rounding.
        fp32r_bits: Explicit significand bits of ``fp32r``.
        io_types: ``keep``: types of graph inputs and outputs are unchanged; ``narrow``; or a format
            by name, as a dict or as ``NAME=FORMAT,...``.
        keep_io_types: The same in other tools' words: True, False or the names that are kept.
        cast_bridges: Which formats a chain of Casts may go through where the target lacks one:
            ``native`` by the rule of its compiler, ``exact`` also those that hold every value of
            the source where that finds none.
        illegal_casts: ``refuse`` a model with Casts that the target cannot do, naming each, or
            ``keep`` them with a warning each.
        require_exact_chains: Whether to refuse chains that may differ from one Cast.
        minimise: What the placement of Casts makes least of: ``bytes`` that they move, by as many
            conversions as the target takes for each, or the number of ``casts``.
        inputs: Samples for the proof: an ``.npz``, a folder of them, an ONNX ``test_data_set_*``
            folder, Polygraphy's JSON, or dicts of arrays. By default one sample is made up.
        input_shapes: Shapes of inputs with free dimensions, for the made-up sample.
        tolerance: Largest error that passes, relative to the largest magnitude of an output; by
            default 1e-2 for float16, 6e-2 for bfloat16, 2e-3 for float32r, 2.5e-1 for float8.
        max_error: The error budget: as much as can be is narrow without a higher error on
            `inputs`. For all outputs of floats, or by name (``"*"`` for all others).
        metric: What the budget is in: ``relmax`` (the default) and ``rms`` are relative to the
            output, ``cosine`` is 1 - cos, ``sqnr`` the lowest ratio of signal to noise in decibels
            that passes, ``top1`` the share of labels that may be lost. Labels are an array
            ``labels``, or one with the name of an output, beside the inputs of each sample.
        budget_seconds: When to stop looking for fewer nodes to keep wide; the best result that was
            verified by then is kept, as it is after an interrupt.
        plan: The report of an earlier run, a file or a dict: its options and its pins are taken,
            and none are looked for. On the same model that gives the same bytes.
        verify: Whether to prove the result.
        verify_outputs: Names of the outputs that are compared; only what they need is run for it.
            By default all.
        repair: Whether to keep wide what leaves the format when the source runs on `inputs`, and
            then, where the result does not verify, the nodes that disturb it most until it does.
            What is kept so is pinned: later runs keep to it. Without, nothing but the model itself
            decides, and a result that does not verify is refused.
        forget_pins: Whether to drop the pins of earlier runs first.
        opset: ``auto`` raises the model's opset as far as the format needs; ``keep`` refuses
            instead; a number raises it to that one.
        drawing: Whether the report also draws the result, node by node, and tells the range and
            the error of each value that is in the source; this runs both once more or more often.
        progress: Told each step as it begins.

    Raises:
        InputError: A bad model, option or sample.
        RefusedError: No model can be made under these options.
        VerificationError: The result's outputs do not match; its text names the worst output and
            the first diverging node.
    """
    options: dict[str, Any] = {
        "fp32_cast": fp32_cast,
        "scope": scope,
        "dtype": dtype,
        "keep_ops": keep_ops,
        "keep_nodes": keep_nodes,
        "narrow_ops": narrow_ops,
        "narrow_nodes": narrow_nodes,
        "op_block_list": op_block_list,
        "node_block_list": node_block_list,
        "policy": policy,
        "functions": functions,
        "matmul_output": matmul_output,
        "inline_cast": inline_cast,
        "clamp_masks": clamp_masks,
        "cast_folding": cast_folding,
        "fp32r_bits": fp32r_bits,
        "io_types": io_types,
        "keep_io_types": keep_io_types,
        "cast_bridges": cast_bridges,
        "illegal_casts": illegal_casts,
        "require_exact_chains": require_exact_chains,
        "minimise": minimise,
        "opset": opset,
        "forget_pins": forget_pins,
    }
    # They are read more than once.
    options = {k: list(v) if isinstance(v, Iterator) else v for k, v in options.items()}
    passes: dict[str, Any] = {"max_error": max_error, "metric": metric, "tolerance": tolerance}
    check_proof_options({**passes, "budget_seconds": budget_seconds}, proves=verify)
    lock = None if plan is None else read_lock(plan)
    if lock is not None:
        options = lock.options(options, _DEFAULTS)
        passes = passes if any(passes.values()) else lock.passes
        target = lock.target if target is None else target
    asked_for = {"options": asked(options, _DEFAULTS), "passes": passes_asked(passes)}
    opset, forget_pins = options.pop("opset"), options.pop("forget_pins")
    request, chosen = requested(target, options)
    if lock is not None:
        lock.check_target(chosen.name, chosen.digest)
    deadline = math.inf if budget_seconds is None else time.monotonic() + budget_seconds
    clock = Clock(progress)
    with collector_paused(keeps=not verify):
        with clock.step("read the model"):
            source = read_source(model)
        run = Conversion(source, request, chosen, clock, asked_for)
        if not verify:
            run.raise_opset(opset, None, None)
            run.prepare(forget=forget_pins)
            run.pin_as(lock)
            return run.drawn(run.narrow("not verified"), asked=drawing)
    # Imported here: nothing above has a use for it.
    from onnxcast.verified import Verified

    samples = samples_of(source.model, inputs, input_shapes, verify_outputs)
    limit = tolerance_of(passes["tolerance"], request.narrowest)
    budget = budget_of(passes, source.model, samples, limit)
    searches = repair and lock is None
    with Worker() as worker:
        with collector_paused():
            run.raise_opset(opset, samples, worker)
            run.learn_types(samples, worker)
            run.prepare(forget=forget_pins)
            run.pin_as(lock)
            if lock is None:
                run.find_fallbacks(samples, worker)
            if searches:
                run.pin_ranges(samples, worker, only_rank=budget is not None)
            result = run.narrow(samples.origin, once=not searches)
        with Verified.against_source(run, samples, budget or limit, worker) as verified:
            proved = None
            if searches:
                proved = verified.prove_within(result)
                proved = proved or verified.repair(exactly=budget is not None, deadline=deadline)
            result = verified.drawn(proved or verified.prove(result), asked=drawing)
    if not result.verified:
        assert result.report.proof is not None
        raise VerificationError(failure_text(result.report.proof))
    return result


def verify(  # noqa: PLR0913 - one keyword per option, as on the command line
    before: object,
    after: object,
    *,
    inputs: FeedSource | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    tolerance: float | Tolerance | None = None,
    verify_outputs: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Proof:
    """Compare two models, under the rounding that the narrow values of `after` stand for.

    Args:
        before: The reference, as `optimize` takes it.
        after: The model to prove; its graph inputs bear the same names.
        inputs: Samples, as for `optimize`.
        input_shapes: Shapes of inputs with free dimensions, for the made-up sample.
        tolerance: Largest error that passes; by default that of the widest rounding in `after`.
        verify_outputs: Names of the outputs that are compared; by default all.
        progress: Told each step as it begins.

    Returns:
        The figures; its `ok` says whether all of it matches.

    Raises:
        InputError: A bad model or sample.
        RefusedError: `before` does not run.
    """
    source, result = read_source(before), read_source(after)
    wanted, found = _required(source.model), _required(result.model)
    if sorted(wanted) != sorted(found):
        raise InputError(
            f"the second model has inputs {', '.join(found)}, the first has {', '.join(wanted)}: "
            "give two models with the same inputs"
        )
    samples = samples_of(source.model, inputs, input_shapes, verify_outputs)
    limit = tolerance_of(tolerance, narrowest_format(result.model))
    with Worker() as worker:
        step = progress or (lambda _step: None)
        with against(source, samples.feeds, limit, worker, step, samples.outputs) as prover:
            return prove(prover, result.model, step)


def _required(model: ir.Model) -> list[str]:
    """Names of the inputs that `model` has no value of its own for."""
    return [spec.name for spec in input_specs(model) if spec.required]
