"""The opset that a plan would like: where ops that compute can run in the format."""

import contextlib
import dataclasses
from collections.abc import Collection

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.graph.schemas import Schemas
from onnxcast.graph.walk import main_nodes, upstream
from onnxcast.planning.legality import allowing_opset
from onnxcast.planning.plan import Plan
from onnxcast.planning.planner import make_plan
from onnxcast.policy import Meaning, Policy, has_meaning
from onnxcast.targets import Target

__all__ = ["native_opset"]

_NEWEST = 22
"""No model is raised further: it has bfloat16 for all that convolutional nets need, and runtimes
lag behind."""


def native_opset(model: ir.Model, policy: Policy, target: Target) -> int | None:
    """The least later opset at which every matmul-like op of `model` takes the format.

    Or, where nothing in the model is in the format, nor would be, every op that computes.

    Args:
        model: At any opset with Casts to the format; it is not changed.
        policy: What is to be narrowed, and to what.
        target: As for the plan.

    Returns:
        The opset; None if a later one helps none of them.
    """
    format_ = policy.format
    if format_ is None or format_.dtype is None or not _may_gain(model, format_.dtype):
        return None
    with contextlib.suppress(InputError):  # what is wrong is told when the real plan is made
        # Which nodes fall back is known only later, and must not decide in a second run either.
        plan = make_plan(model, dataclasses.replace(policy, fallback=None), target)
        newest = _NEWEST if target.opsets is None else min(_NEWEST, target.opsets[1])
        later = {
            group.node: decision.opset
            for group, decision in plan.decisions.items()
            if decision.opset is not None and decision.opset <= newest
        }
        # What nobody reads goes before the real plan is made.
        live = upstream(*model.graph.outputs) if later else set()
        later = {node: opset for node, opset in later.items() if node in live}
        worth = [later[node] for node in later if has_meaning(node, Meaning.MATMUL)]
        if not worth and not _is_narrow(live, plan, format_.dtype):
            worth = [later[node] for node in later if not has_meaning(node, Meaning.CARRIER)]
        return max(worth, default=None)
    return None


def _may_gain(model: ir.Model, dtype: ir.DataType) -> bool:
    """Whether an op of `model` that takes float32 takes `dtype` at a later opset only."""
    ops = {(node.domain, node.op_type): node for node in main_nodes(model)}
    schemas = Schemas(model)
    known = [(op, schemas.signature(node), schemas.version(node)) for op, node in ops.items()]
    wide, narrow = ir.TensorType(ir.DataType.FLOAT), ir.TensorType(dtype)
    return any(
        allowing_opset(domain, op_type, version, variable, dtype)
        for (domain, op_type), signature, version in known
        if signature is not None and version is not None
        for variable in signature.allowed
        if signature.allows(variable, wide) and not signature.allows(variable, narrow)
    )


def _is_narrow(live: Collection[ir.Node], plan: Plan, dtype: ir.DataType) -> bool:
    """Whether the `live` nodes have values of type `dtype`, or will by `plan`."""
    return any(group.node in live for group, _ in plan.narrow()) or any(
        plan.types.dtype(value) == dtype for node in live for value in (*node.inputs, *node.outputs)
    )
