"""The order of passes, as one tuple."""

import onnx_ir as ir

from onnxcast.passes import (
    AutocastPass,
    ClampMasksPass,
    FoldCastsPass,
    InlineFunctionsPass,
    InputsPass,
    IoTypesPass,
    MatmulOperandsPass,
    NormalisePass,
    ShrinkInitializersPass,
    SpecialiseFunctionsPass,
    TidyPass,
)
from onnxcast.planning import PlannedPass
from onnxcast.policy import Functions, Policy, Scope
from onnxcast.targets import Target

__all__ = ["build_pipeline", "narrowing_passes", "preparing_passes"]


def build_pipeline(policy: Policy, target: Target) -> tuple[ir.passes.InPlacePass, ...]:
    """The passes for `policy`, in order; made anew for each model."""
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
        FoldCastsPass(),
        TidyPass(),
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
        FoldCastsPass(),
        *((ShrinkInitializersPass(),) if policy.inline_cast else ()),
        TidyPass(),
    )
