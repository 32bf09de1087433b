from typing import Any

import pytest

from onnxcast.graph.walk import model_graphs
from onnxcast.planning import (
    Decision,
    Form,
    PinLevel,
    Reason,
    forget_pins,
    make_plan,
    pin,
    pin_level,
    pinned,
    unpin,
)
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from tests.planning.plans import load

TEXT = """g (float[2] x, bool c) => (float[2] y) {
    y = If (c) <then_branch = t () => (float[2] p) { p = Relu (x) },
                else_branch = e () => (float[2] q) { q = Neg (x) }>
}"""


def test_a_pin_is_written_on_its_node_and_taken_off() -> None:
    node = load(TEXT).graph[0]
    assert not pinned(node)
    pin(node, "y reaches 1e+05")
    assert dict(node.metadata_props) == {"onnxcast.pin": "y reaches 1e+05"}
    unpin(node)
    assert not node.metadata_props


def test_pins_of_all_scopes_are_forgotten() -> None:
    model = load(TEXT)
    nodes = [model.graph[0], model.graph[0].attributes["then_branch"].as_graph()[0]]
    for node in nodes:
        pin(node, "own error 0.5")
    assert forget_pins(model) == 2
    assert not any(pinned(node) for node in nodes)
    assert forget_pins(model) == 0


def test_a_pin_keeps_a_level() -> None:
    node = load(TEXT).graph[0]
    assert pin_level(node) is PinLevel.NONE
    for level in (PinLevel.WEIGHTS, PinLevel.WIDE, PinLevel.WEIGHTS):
        pin(node, "own error 0.5", level)
        assert pin_level(node) is level
    pin(node, "own error 0.5", PinLevel.WIDE)
    assert pinned(node) == "own error 0.5; weights too"
    pin(node, pinned(node), PinLevel.WIDE)
    assert pinned(node) == "own error 0.5; weights too"
    pin(node, pinned(node), PinLevel.WEIGHTS)
    assert pinned(node) == "own error 0.5"
    unpin(node)
    assert pin_level(node) is PinLevel.NONE


PRODUCTS = """g (float[2,2] x, float[2,2] fed) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 0.3},
    float[2] b = {0.1, 0.2}, float[2,2] fed = {1, 2, 3, 4}, float[2,2] l = {1, 1e6, 1, 1}> {
    [gemm] g = Gemm (x, w, b)
    [act] r = Relu (g)
    t = Transpose (w)
    n = Neg (w)
    [moved] m = MatMul (t, r)
    [computed] c = MatMul (n, m)
    [both] o = MatMul (c, c)
    [feedable] f = MatMul (o, fed)
    [large] h = MatMul (f, l)
    [sum] y = Add (h, x)
}"""


def pinned_decisions(
    level: PinLevel, token: str = "all-fp16", names: frozenset[str] = frozenset(), **options: Any
) -> dict[str, Decision]:
    """Decisions by node name where all nodes, or those of the names, are pinned."""
    model = load(PRODUCTS)
    for node in (node for graph in model_graphs(model) for node in graph):
        if not names or node.name in names:
            pin(node, "too much", level)
    plan = make_plan(model, make_policy(fp32_cast=token, **options), GENERIC)
    return {group.node.name: each for group, each in plan.decisions.items() if group.node.name}


@pytest.mark.parametrize("token", ["all-fp16", "all-bf16", "matmult-fp16", "all-fp8e4"])
@pytest.mark.parametrize("output", ["narrow", "wide"])
def test_a_pinned_product_keeps_its_constants_narrow(token: str, output: str) -> None:
    found = pinned_decisions(PinLevel.WEIGHTS, token, matmul_output=output)
    format_ = make_policy(fp32_cast=token).format
    for name, reads in (("gemm", (1,)), ("moved", (0,))):
        assert (found[name].form, found[name].reads) == (Form.STORAGE, reads)
        assert found[name].format == format_
        assert not found[name].gives
        assert (found[name].reason, found[name].detail) == (Reason.WEIGHTS, "too much")


def test_a_pinned_product_without_constants_is_wide() -> None:
    found = pinned_decisions(PinLevel.WEIGHTS)
    for name in ("computed", "both", "feedable"):
        assert found[name].is_wide
        assert (found[name].reason, found[name].reads) == (Reason.PINNED, ())


def test_a_pinned_product_with_a_constant_out_of_range_is_wide() -> None:
    found = pinned_decisions(PinLevel.WEIGHTS)
    assert (found["large"].form, found["large"].reason) == (Form.WIDE, Reason.OUT_OF_RANGE)


@pytest.mark.parametrize("level", [PinLevel.WEIGHTS, PinLevel.WIDE])
def test_any_other_pinned_node_is_wide(level: PinLevel) -> None:
    found = pinned_decisions(level)
    assert found["act"].is_wide
    assert (found["act"].reason, found["act"].detail) == (
        Reason.PINNED,
        "too much" if level is PinLevel.WEIGHTS else "too much; weights too",
    )


def test_a_pin_of_weights_too_keeps_all_of_a_product_wide() -> None:
    found = pinned_decisions(PinLevel.WIDE)
    assert {found[name].form for name in found} == {Form.WIDE}
    assert {found[name].reason for name in found} == {Reason.PINNED}
    assert found["gemm"].detail == "too much; weights too"


@pytest.mark.parametrize("level", [PinLevel.WEIGHTS, PinLevel.WIDE])
@pytest.mark.parametrize(
    "options", [{"narrow_ops": ["Gemm", "Relu"]}, {"narrow_nodes": ["gemm", "act"]}], ids=str
)
def test_what_the_user_narrows_minds_no_pin(level: PinLevel, options: dict[str, Any]) -> None:
    found = pinned_decisions(level, **options)
    assert (found["gemm"].form, found["gemm"].reads) == (Form.NATIVE, (0, 1, 2))
    assert (found["act"].form, found["act"].reason) == (Form.NATIVE, Reason.REQUESTED)
    kept = Reason.WEIGHTS if level is PinLevel.WEIGHTS else Reason.PINNED
    assert found["moved"].reason is kept


def test_what_the_user_keeps_wide_is_wide_by_request() -> None:
    found = pinned_decisions(PinLevel.WEIGHTS, keep_nodes=["gemm"])
    assert (found["gemm"].form, found["gemm"].reason) == (Form.WIDE, Reason.KEEP_NODE)


def test_a_pin_says_nothing_of_its_neighbours() -> None:
    found = pinned_decisions(PinLevel.WEIGHTS, names=frozenset({"gemm"}))
    assert found["gemm"].form is Form.STORAGE
    assert (found["act"].form, found["moved"].form) == (Form.NATIVE, Form.NATIVE)


@pytest.mark.parametrize("level", [PinLevel.WEIGHTS, PinLevel.WIDE])
@pytest.mark.parametrize("token", ["all-fp32r", "matmult-fp32r"])
def test_marks_keep_no_weights_of_a_pinned_product(token: str, level: PinLevel) -> None:
    found = pinned_decisions(level, token)
    assert found["gemm"].is_wide
    assert found["gemm"].reason is Reason.PINNED


def test_the_plan_tells_the_pins_it_keeps_to() -> None:
    model = load(PRODUCTS)
    pin(model.graph[0], "g reaches 1e+05")
    pin(model.graph[2], "t reaches 1e+05", PinLevel.WIDE)
    plan = make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC)
    assert plan.pins() == [
        {"node": "gemm", "figure": "g reaches 1e+05"},
        {"node": "Transpose(-> t)", "figure": "t reaches 1e+05; weights too"},
    ]


def test_a_weight_joined_with_a_computed_value_is_no_weight() -> None:
    text = """g (float[2,2] x) => (float[2,2] y, float[2,2] z) <float[1,2] w = {1, 2}> {
        j = Concat <axis = 0> (w, w) [joined] y = MatMul (x, j)
        s, u = Split <num_outputs = 2> (x) k = Concat <axis = 0> (w, s)
        [mixed] z = MatMul (x, k) }"""
    model = load(text)
    for node in model.graph:
        if node.op_type == "MatMul":
            pin(node, "too much")
    plan = make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC)
    found = {g.node.name: d.reason for g, d in plan.decisions.items() if g.node.name}
    assert found == {"joined": Reason.WEIGHTS, "mixed": Reason.PINNED}
