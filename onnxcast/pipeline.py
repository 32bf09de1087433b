"""The order of passes, as one tuple."""

import dataclasses

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedOpsetsPass

from onnxcast.errors import InputError
from onnxcast.passes import (
    AutocastPass,
    ClampMasksPass,
    FoldCastsPass,
    InlineFunctionsPass,
    InputsPass,
    IoTypesPass,
    LegaliseCastsPass,
    MatmulOperandsPass,
    NormalisePass,
    ShrinkInitializersPass,
    SpecialiseFunctionsPass,
    TidyPass,
)
from onnxcast.planning import PlannedPass
from onnxcast.policy import DTYPES, Functions, Policy, Scope
from onnxcast.targets import Target

__all__ = ["build_pipeline", "fitted", "narrowing_passes", "preparing_passes"]


def fitted(policy: Policy, target: Target) -> Policy:
    """`policy` with what `target` asks for beyond it: no functions where there is one domain only.

    Raises:
        InputError: The target lacks a format that is asked for.
    """
    for format_ in policy.formats:
        if not target.offers(format_):
            offered = ", ".join(name for name, each in DTYPES.items() if target.offers(each))
            raise InputError(
                f"target {target.architecture} has no {format_}: give another target or one of "
                f"{offered}"
            )
    if target.one_domain and policy.functions is Functions.SPECIALISE:
        return dataclasses.replace(policy, functions=Functions.INLINE)
    return policy


def build_pipeline(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """The passes for `policy`, in order; made anew for each model.

    Raises:
        InputError: The target lacks a format that is asked for.
    """
    policy = fitted(policy, target)
    return (*preparing_passes(policy, target), *narrowing_passes(policy, target))


def preparing_passes(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """The first half: what makes a model plain without changing a value (but masks, on request).

    After it the plan sees what the source's own Casts amount to, and nothing that nobody reads.
    """
    functions: dict[Functions, type[ir.passes.InPlacePass]] = {
        Functions.SPECIALISE: SpecialiseFunctionsPass,
        Functions.INLINE: InlineFunctionsPass,
    }
    prepare = functions.get(policy.functions)
    if policy.scope is Scope.NONE and policy.functions is Functions.SPECIALISE:
        prepare = None  # nothing is narrowed, so there is nothing to tell apart
    return (
        *(() if prepare is None else (prepare(),)),
        NormalisePass(),
        FoldCastsPass(target.is_native),
        TidyPass(),
        *((RemoveUnusedOpsetsPass(),) if target.one_domain else ()),
        *((ClampMasksPass(policy, target),) if policy.clamp_masks else ()),
    )


def narrowing_passes(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """The second half: carry out the plan, and clean up after it."""
    narrowing: dict[Scope, type[PlannedPass]] = {
        Scope.ALL: AutocastPass,
        Scope.MATMULT: MatmulOperandsPass,
        Scope.INPUTS: InputsPass,
    }
    chosen = narrowing.get(policy.scope)
    return (
        *(() if chosen is None else (chosen(policy=policy, target=target),)),
        *((IoTypesPass(policy.io_types, target),) if policy.io_types.changes else ()),
        FoldCastsPass(target.is_native),
        *((ShrinkInitializersPass(),) if policy.inline_cast else ()),
        *((_legalising(policy, target),) if target.casts is not None else ()),
        TidyPass(),
    )


def _legalising(policy: Policy, target: Target) -> LegaliseCastsPass:
    return LegaliseCastsPass(
        target,
        exact_bridges=policy.exact_bridges,
        keep_illegal=policy.keep_illegal_casts,
        exact_only=policy.exact_chains,
    )
