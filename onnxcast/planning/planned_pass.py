"""What every pass that carries out a plan shares: make the plan, place its Casts, keep both."""

import dataclasses
from typing import ClassVar

import onnx_ir as ir

from onnxcast.diagnostics import Diagnostic
from onnxcast.graph.types import ElementTypes
from onnxcast.planning.pins import fall_back
from onnxcast.planning.placement import Store, carry_out
from onnxcast.planning.plan import Plan
from onnxcast.planning.planner import make_plan
from onnxcast.policy import Policy, Scope
from onnxcast.targets import GENERIC, Target

__all__ = ["PlannedPass"]


@dataclasses.dataclass(kw_only=True)
class PlannedPass(ir.passes.InPlacePass):
    """Plan for one scope and carry the plan out.

    Attributes:
        policy: What was asked for; its scope must be the pass's.
        target: Tells the operand types of matmul-like ops.
        store: Stores constants in the types that all their readers want, where it may; the others,
            and all without it, are cast.
        types: Of the model that it is called with, if they are known; for one call.
        plan: The plan of the last call; None before.
        types_after: Of what the last call left; None before, and where there are functions.
        findings: A finding per Cast that the last call added, and per constant that it stored.
    """

    scope: ClassVar[Scope]

    policy: Policy
    target: Target = GENERIC
    store: Store | None = None
    types: ElementTypes | None = dataclasses.field(default=None, repr=False, compare=False)
    plan: Plan | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    types_after: ElementTypes | None = dataclasses.field(
        default=None, init=False, repr=False, compare=False
    )
    findings: list[Diagnostic] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        assert self.policy.scope is self.scope, self.policy

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Plan and place."""
        types, self.types = self.types, None
        self.plan = make_plan(model, self.policy, self.target, types)
        self.findings, modified, changes = carry_out(model, self.plan, self.store)
        self.types_after = None if model.functions else self.plan.types.changed(model, changes)
        # Once constants are rounded and values cast, the cause may not be seen any more.
        for node, figure in self.plan.fallbacks.items():
            modified |= fall_back(node, figure)
        return ir.passes.PassResult(model, modified)
