"""Two placements of one plan, whose results must be the same, bit for bit."""

import dataclasses

import onnx_ir as ir

from onnxcast.pipeline import narrowing_passes, preparing_passes
from onnxcast.planning import Plan, Reason, carry_out, make_plan
from onnxcast.planning.plan import wide
from onnxcast.policy import Policy
from onnxcast.targets import GENERIC
from onnxcast.verification.twin import build_twin

__all__ = ["twins"]

_CARRIED = (Reason.CARRIES_NARROW, Reason.FEEDS_NARROW)


def twins(model: ir.Model, policy: Policy) -> tuple[ir.Model, ir.Model]:
    """The twins of a plan for `model` that is placed naively, and of the same as a run places it.

    In the naive placement all data movement is wide, no Cast is folded and no constant shrunk.
    """
    for pass_ in preparing_passes(policy, GENERIC):
        pass_(model)
    naive = model.clone()
    carry_out(naive, _without_carriers(make_plan(naive, policy, GENERIC)))
    for pass_ in narrowing_passes(policy, GENERIC):
        pass_(model)
    return build_twin(naive).model, build_twin(model).model


def _without_carriers(plan: Plan) -> Plan:
    decisions = {
        group: wide(Reason.CARRIES_WIDE) if decision.reason in _CARRIED else decision
        for group, decision in plan.decisions.items()
    }
    return dataclasses.replace(plan, decisions=decisions)
