"""What would be decided, with nothing changed or run: the plan of a model, and why it is so."""

import os
from typing import Any

import onnx_ir as ir

from onnxcast.explanation import Explanation, explain_node, find_node
from onnxcast.original import read_source
from onnxcast.pipeline import preparing_passes, requested
from onnxcast.planning import Plan, make_plan
from onnxcast.policy import Policy
from onnxcast.targets import Target

__all__ = ["Explanation", "explain", "plan"]


def plan(
    model: object, *, target: str | os.PathLike[str] | Target | None = None, **options: Any
) -> Plan:
    """Show which format each type group of a model would get, and why; nothing is changed.

    Args:
        model: As for `optimize`.
        target: As for `optimize`.
        **options: Those of `optimize` that say what is narrowed (`onnxcast.make_policy`).

    Raises:
        InputError: A bad model or option.
    """
    policy, chosen = requested(target, options)
    return make_plan(_prepared(model, policy, chosen), policy, chosen)


def explain(
    model: object,
    node: str,
    *,
    target: str | os.PathLike[str] | Target | None = None,
    **options: Any,
) -> Explanation:
    """Explain which format a node gets, why, and by which conversions of the target.

    Args:
        model: As for `optimize`; its opset is kept.
        node: The name of a node, or of one of its results.
        target: As for `optimize`.
        **options: As for `plan`.

    Raises:
        InputError: A bad model or option, or no such node.
    """
    policy, chosen = requested(target, options)
    prepared = _prepared(model, policy, chosen)
    plan = make_plan(prepared, policy, chosen)
    found = find_node(prepared, node)
    return explain_node(prepared, found, plan, chosen, exact_bridges=policy.exact_bridges)


def _prepared(model: object, policy: Policy, target: Target) -> ir.Model:
    prepared = read_source(model).model
    for pass_ in preparing_passes(policy, target):
        pass_(prepared)
    return prepared
