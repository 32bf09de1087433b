"""Two placements of one plan, whose results must be the same, bit for bit."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.pipeline import narrowing_passes, preparing_passes
from onnxcast.planning import Plan, Reason, carry_out, make_plan
from onnxcast.planning.plan import wide
from onnxcast.policy import Policy
from onnxcast.targets import GENERIC
from onnxcast.verification.twin import build_twin
from onnxcast.verification.values import Feeds, Value

__all__ = ["fed", "twins"]

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


def fed(twin: ir.Model, feeds: Sequence[Feeds]) -> list[Feeds]:
    """Samples for `twin`, whose float weights become inputs.

    onnxruntime packs a weight that is an initializer, and sums in another order then than where
    the same weight comes out of a Cast.
    """
    weights: dict[str, Value] = {}
    graph = twin.graph
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or value.is_graph_output():
            continue
        weights[name] = tensor.numpy()
        del graph.initializers[name]
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(list(tensor.numpy().shape))
        value.const_value = None
        if not value.is_graph_input():
            graph.inputs.append(value)
    return [
        {**weights, **{name: _widened(value) for name, value in sample.items()}} for sample in feeds
    ]


def _widened(value: Value) -> Value:
    """What an input of float16 is in the twin."""
    if isinstance(value, np.ndarray) and value.dtype == np.float16:
        return value.astype(np.float32)
    return value
