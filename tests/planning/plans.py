"""Plans of models written as text, and how tests read them."""

from collections.abc import Iterable

import onnx.parser
import onnx_ir as ir

from onnxcast.planning import Plan, Reason, make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC

__all__ = ["decided", "formats_of", "load", "plan_of", "reasons"]

HEADER = '<ir_version: 10, opset_import: ["": {opset}, "local": 1]>'


def load(text: str, opset: int = 21) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER.format(opset=opset) + text))


def plan_of(
    text: str,
    token: str = "all-fp16",
    *,
    opset: int = 21,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
) -> Plan:
    policy = make_policy(fp32_cast=token, keep_ops=keep_ops, keep_nodes=keep_nodes)
    return make_plan(load(text, opset), policy, GENERIC)


def decided(plan: Plan) -> dict[str, tuple[str, Reason]]:
    """Format and reason by the node's first result.

    A group without results goes by that name, a colon and its type variable.
    """
    found: dict[str, tuple[str, Reason]] = {}
    for group, decision in plan.decisions.items():
        name = group.node.outputs[0].name or ""
        if not group.results:
            name = f"{name}:{group.variable}"
        found.setdefault(name, (decision.format.name, decision.reason))
    return found


def reasons(text: str, token: str = "all-fp16", *, opset: int = 21) -> dict[str, Reason]:
    return {name: why for name, (_, why) in decided(plan_of(text, token, opset=opset)).items()}


def formats_of(text: str, token: str = "all-fp16", *, opset: int = 21) -> dict[str, str]:
    return {name: kind for name, (kind, _) in decided(plan_of(text, token, opset=opset)).items()}
