"""Make the plan: what each group gets by itself, and then what its neighbours make of it."""

import onnx_ir as ir

from onnxcast.files import measure_small
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import contents, label
from onnxcast.planning.borders import Borders, Facts
from onnxcast.planning.deciding import Decider
from onnxcast.planning.grouping import find_groups
from onnxcast.planning.plan import Plan, wide
from onnxcast.planning.readers import count_readers
from onnxcast.planning.reasons import Reason
from onnxcast.planning.settling import Layer, find_fallbacks, settle
from onnxcast.policy import Choice, Functions, Minimise, Policy, Scope, meanings_of
from onnxcast.targets import Target

__all__ = ["make_plan"]


def make_plan(
    model: ir.Model, policy: Policy, target: Target, types: ElementTypes | None = None
) -> Plan:
    """Decide for each float32 group of `model` which format it gets.

    Args:
        model: Normalised or not; it is not changed.
        policy: Scope, format, and what is kept wide or narrowed regardless.
        target: Tells the operand types of matmul-like ops.
        types: Of `model` as it is, if they are known; of what is in specialised functions, too.

    Raises:
        InputError: A pattern that matches nothing (with the nearest names), or contradicts another.
    """
    specialised = policy.functions is Functions.SPECIALISE
    graphs, nodes = contents(model, functions=specialised)
    policy.selection.check(nodes)
    shapes = Shapes(model)
    if policy.format is not None and policy.minimise is Minimise.BYTES:
        shapes.begin()
    if types is None:
        types = ElementTypes(model, in_functions=specialised)
    groups = find_groups(nodes, types)
    labels = {group.node: label(group.node) for group in groups if not group.node.name}
    if policy.format is None:
        return Plan(dict.fromkeys(groups, wide(Reason.SCOPE)), types, labels, shapes)
    measure_small(value.const_value for graph in graphs for value in graph.initializers.values())
    choices = _choices(nodes, policy)
    told = [(node, meanings_of(node)) for node in nodes]
    decider = Decider(model, told, policy, target, types)
    decided, fallbacks = decider.decide(groups, choices), dict[ir.Node, str]()
    other = policy.falling_back()
    facts = Facts(nodes, types, shapes, count_readers(graphs, told))
    wanted = (policy.format, policy.fallback)
    dtypes = {target.realised(each).dtype for each in wanted if each is not None}
    layers = [Layer(Borders(facts, policy, target, dtypes), decided)]
    if other is not None:
        fallbacks = find_fallbacks(decided)
        fallen = Decider(model, told, other, target, types).decide(groups, choices)
        layers.append(Layer(Borders(facts, other, target, dtypes), fallen))
    decisions, bound = settle(layers, policy.scope, choices.keys(), fallbacks)
    shapes.finish()
    if policy.scope is Scope.INPUTS:
        decisions = {group: decider.at_inputs(group, each) for group, each in decisions.items()}
    return Plan(decisions, types, labels, shapes, bound, fallbacks)


def _choices(nodes: list[ir.Node], policy: Policy) -> dict[ir.Node, Choice]:
    """What the user says about nodes, of which most say nothing."""
    if policy.selection.is_empty:
        return {}
    found = ((node, policy.selection.choice(node)) for node in nodes)
    return {node: choice for node, choice in found if choice is not None}
