"""The order of passes, as one tuple."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedOpsetsPass

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT32, Format, of
from onnxcast.passes import (
    AutocastPass,
    ClampMasksPass,
    FoldCastsPass,
    InlineFunctionsPass,
    InputsPass,
    IoTypesPass,
    LegaliseCastsPass,
    LowerBoolCastsPass,
    MatmulOperandsPass,
    NormalisePass,
    RetypeFillsPass,
    ShrinkInitializersPass,
    SpecialiseFunctionsPass,
    TidyPass,
)
from onnxcast.planning import PlannedPass
from onnxcast.policy import DTYPES, CastFolding, Functions, Policy, Scope, make_policy
from onnxcast.targets import Chains, Target, get_target

__all__ = ["build_pipeline", "fitted", "narrowing_passes", "preparing_passes", "requested"]


def requested(
    target: str | os.PathLike[str] | Target | None, options: Mapping[str, Any]
) -> tuple[Policy, Target]:
    """What is asked for, in what fits the target, and the target.

    Raises:
        InputError: A bad option, or a target that is not known or lacks the format.
    """
    chosen = get_target(target)
    return fitted(make_policy(preferred=chosen.preferred, **options), chosen), chosen


def fitted(policy: Policy, target: Target) -> Policy:
    """`policy` with what `target` asks for beyond it: no functions where there is one domain only.

    Raises:
        InputError: The target lacks a format that is asked for.
    """
    for format_ in policy.formats:
        lacking = _lacking(target, format_, policy)
        if lacking:
            offered = [name for name, each in DTYPES.items() if not _lacking(target, each, policy)]
            others = f" or one of {', '.join(offered)}" if offered else ""
            raise InputError(
                f"target {target.architecture} has no {lacking}: give another target{others}"
            )
    if target.one_domain and policy.functions is Functions.SPECIALISE:
        return dataclasses.replace(policy, functions=Functions.INLINE)
    return policy


def _lacking(target: Target, format_: Format, policy: Policy) -> str:
    """What `target` lacks to narrow float32 to `format_` and to widen it again; "" if nothing."""
    if not target.offers(format_):
        return str(format_)
    real, chains = target.realised(format_), Chains(target, exact_bridges=policy.exact_bridges)
    if target.casts is None or real.dtype is None or policy.keep_illegal_casts:
        return ""
    stored = of(real.dtype)
    there, back = chains.find(FLOAT32, stored), chains.find(stored, FLOAT32)
    return "" if there and back else f"Casts to {format_} and back"


def build_pipeline(
    policy: Policy, target: str | os.PathLike[str] | Target | None = None
) -> tuple[ir.passes.InPlacePass, ...]:
    """The passes for `policy`, in order; made anew for each model.

    In a sequence they come after onnxscript's optimizer, whose rule CastCast makes one Cast of any
    two that go through float32 to float16 or bfloat16, whatever they come from. After these passes
    that would round integers and float64 once where the proof saw it done twice, undo chains that
    the target needs, and fold constants that are stored narrow into wide ones.

    Args:
        policy: What is narrowed.
        target: As for `onnxcast.optimize`.

    Raises:
        InputError: An unknown target, or one that lacks a format that is asked for.
    """
    chosen = get_target(target)
    policy = fitted(policy, chosen)
    return (*preparing_passes(policy, chosen), *narrowing_passes(policy, chosen))


def preparing_passes(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """The first half: what makes a model plain without changing a value, but on request.

    Masks that are clamped and round trips that are dropped change some. After it the plan sees what
    the source's own Casts amount to, and nothing that nobody reads.
    """
    functions: dict[Functions, type[ir.passes.InPlacePass]] = {
        Functions.SPECIALISE: SpecialiseFunctionsPass,
        Functions.INLINE: InlineFunctionsPass,
    }
    prepare = functions.get(policy.functions)
    if policy.scope is Scope.NONE and policy.functions is Functions.SPECIALISE:
        # Nothing is narrowed, so Casts alone make a difference between the calls of a function.
        prepare = None if target.casts is None else prepare
    return (
        *(() if prepare is None else (prepare(),)),
        NormalisePass(),
        TidyPass(),  # what nobody reads must have no say in where Casts go
        FoldCastsPass(_native(policy, target), policy.cast_folding, _keeps(policy)),
        *((LowerBoolCastsPass(target),) if target.casts is not None else ()),
        TidyPass(),
        *(_restricting(target)),
        *((ClampMasksPass(policy, target),) if policy.clamp_masks and policy.format else ()),
    )


def narrowing_passes(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """The second half: carry out the plan, and clean up after it."""
    narrowing: dict[Scope, type[PlannedPass]] = {
        Scope.ALL: AutocastPass,
        Scope.MATMULT: MatmulOperandsPass,
        Scope.INPUTS: InputsPass,
    }
    chosen = narrowing.get(policy.scope)
    # A Cast for each weight, which shrinking absorbs, is a tenth of the time of many nodes.
    store = ShrinkInitializersPass.store if policy.inline_cast else None

    def shrinking() -> tuple[ir.passes.InPlacePass, ...]:
        return (ShrinkInitializersPass(), RetypeFillsPass()) if policy.inline_cast else ()

    return (
        *(() if chosen is None else (chosen(policy=policy, target=target, store=store),)),
        *((IoTypesPass(policy.io_types, target),) if policy.io_types.changes else ()),
        _folding(policy, target),
        *shrinking(),
        *(_legalising(policy, target) if target.casts is not None else ()),
        *(shrinking() if target.casts is not None else ()),
        TidyPass(),
    )


def _restricting(target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """What goes because the target would not take it, although nothing uses it."""
    if target.casts is None and not target.one_domain:
        return ()
    return (
        RemoveUnusedFunctionsPass(),  # type: ignore[no-untyped-call] # onnx_ir gives it no types
        *((RemoveUnusedOpsetsPass(),) if target.one_domain else ()),
    )


def _legalising(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """Legalise, and fold what a chain makes of the Cast before it."""
    legalise = LegaliseCastsPass(
        target,
        exact_bridges=policy.exact_bridges,
        keep_illegal=policy.keep_illegal_casts,
        exact_only=policy.exact_chains,
    )
    return legalise, _folding(policy, target)


def _folding(policy: Policy, target: Target) -> FoldCastsPass:
    """Fold what the plan made, and nothing but exactly; what is left is to outlast later runs."""
    marks = policy.cast_folding is CastFolding.DROP_NARROWING
    return FoldCastsPass(_native(policy, target), keeps=_keeps(policy), marks=marks)


def _native(policy: Policy, target: Target) -> Callable[[Format, Format], bool]:
    """Tells which Casts may be made by folding: those of the target, but none within a mixed plan.

    Such a plan counts on float32 between its two formats, and has to in a second run.
    """
    planned = {policy.format, policy.fallback}

    def native(source: Format, to: Format) -> bool:
        return target.is_native(source, to) and {source, to} != planned

    return native


def _keeps(policy: Policy) -> Callable[[ir.Node], bool]:
    """Tells which nodes the user keeps wide."""

    def keeps(node: ir.Node) -> bool:
        choice = policy.selection.choice(node)
        return choice is not None and choice.wish == "wide"

    return keeps
