"""What the user narrows or keeps beats what ops mean, but neither schemas nor constants."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.planning import Form, Reason, make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from tests.planning.plans import load

Row = tuple[str, str, str]


def rows(
    text: str | ir.Model, token: str = "all-fp16", *, opset: int = 21, **options: Any
) -> dict[str, Row]:
    """Format, reason and detail by the node's first result."""
    model = load(text, opset) if isinstance(text, str) else text
    plan = make_plan(model, make_policy(fp32_cast=token, **options), GENERIC)
    found: dict[str, Row] = {}
    for group, decision in plan.decisions.items():
        row = (decision.format.name, decision.reason.name, decision.detail)
        found.setdefault(group.node.outputs[0].name or "", row)
    return found


MEANT = [
    ("Exp", "y = Exp (x)", Reason.AMPLIFYING),
    ("Log", "y = Log (x)", Reason.AMPLIFYING),
    ("ReduceSum", "y = ReduceSum <keepdims = 0> (x)", Reason.ACCUMULATING),
    ("Floor", "y = Floor (x)", Reason.JUMPING),
]


@pytest.mark.parametrize(("op", "node", "reason"), MEANT, ids=[op for op, _, _ in MEANT])
@pytest.mark.parametrize("token", ["all-fp16", "matmult-fp16"])
def test_a_request_overrides_what_the_op_means(
    op: str, node: str, reason: Reason, token: str
) -> None:
    text = f"g (float[4] x) => (y) {{ [it] {node} }}"
    assert rows(text)["y"] == ("float32", reason.name, "")
    for options, detail in (
        ({"narrow_ops": [op]}, f"op {op}"),
        ({"narrow_nodes": ["i*"]}, "node it"),
        ({"policy": lambda _node: "narrow"}, "policy it"),
    ):
        assert rows(text, token, **options)["y"] == ("float16", "REQUESTED", detail)


@pytest.mark.parametrize(
    ("op", "nodes", "reason"),
    [
        ("Mul", "q = Mul (x, x) y = ReduceSum (q)", Reason.STATISTICS),
        ("Neg", "c = Cast <to = 1> (i) q = Neg (c) y = Abs (x)", Reason.INTEGER_VALUED),
        ("Sub", "h = Cast <to = 10> (x) f = Cast <to = 1> (h) q = Sub (x, f)", Reason.RESIDUE),
    ],
)
def test_a_request_overrides_what_the_neighbours_mean(op: str, nodes: str, reason: Reason) -> None:
    text = f"g (float[4] x, int64[4] i) => (q) {{ {nodes} }}"
    assert rows(text)["q"][:2] == ("float32", reason.name)
    assert rows(text, narrow_ops=[op])["q"] == ("float16", "REQUESTED", f"op {op}")


def test_a_request_adds_what_is_outside_the_scope() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) { h = MatMul (x, x) r = Relu (h) y = Neg (r) }"
    assert rows(text, "matmult-fp16") == {
        "h": ("float16", "MATMUL_OPERANDS", "generic"),
        "r": ("float32", "SCOPE", ""),
        "y": ("float32", "SCOPE", ""),
    }
    found = rows(text, "matmult-fp16", narrow_ops=["Relu"])
    assert found["r"] == ("float16", "REQUESTED", "op Relu")
    assert found["y"] == ("float32", "SCOPE", "")


def test_scope_inputs_stays_at_the_inputs() -> None:
    text = "g (float[2] x) => (float[2] y) { h = Floor (x) y = Ceil (h) }"
    assert rows(text, "inputs-fp16", narrow_ops=["Floor", "Ceil"]) == {
        "h": ("float16", "INPUT", ""),
        "y": ("float32", "SCOPE", ""),
    }


def test_with_scope_none_a_request_narrows_nothing() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
    assert rows(text, "none", narrow_ops=["Relu"])["y"][:2] == ("float32", "SCOPE")


FORCED: list[dict[str, Any]] = [
    {"narrow_ops": ["*"]},
    {"narrow_nodes": ["*"]},
    {"policy": lambda _node: "narrow"},
]
BY = pytest.mark.parametrize("options", FORCED, ids=["op", "node", "policy"])


@BY
@pytest.mark.parametrize(
    ("nodes", "opset", "reason"),
    [
        ("[a] y = Celu (x)", 17, Reason.SCHEMA),
        ("[a] y = local.Unknown (x)", 21, Reason.OPAQUE),
        ("[a] y = Cast <to = 10> (x)", 21, Reason.USER_CAST),
        ("[a] y = Mul (x, k)", 21, Reason.OUT_OF_RANGE),
        ("[a] y = Log (w)", 21, Reason.OUT_OF_RANGE),
        ("[a] y = Add (x, s)", 21, Reason.VANISHING),
        ("[a] y = MatMul (x, w)", 21, Reason.OUT_OF_RANGE),
    ],
)
def test_no_request_overrides_schemas_or_constants(
    nodes: str, opset: int, reason: Reason, options: dict[str, Any]
) -> None:
    constants = "float k = {1e6}, float[4] w = {1, 2, 3, -1e6}, float s = {1e-12}"
    text = f"g (float[4] x) => (y) <{constants}> {{ {nodes} }}"
    assert rows(text, opset=opset, **options)["y"][:2] == ("float32", reason.name)


def test_what_comes_from_a_constant_out_of_range_stays_wide_too() -> None:
    text = """g (float[2] x) => (float[2] y) <float k = {1e6}> {
        h = Mul (x, k) r = Relu (h) y = Softmax (r) }"""
    found = rows(text, narrow_ops=["*"])
    assert {row[:2] for row in found.values()} == {("float32", "OUT_OF_RANGE")}
    assert found["h"][2] == "k up to 1e+06"
    assert found["r"][2] == "h up to 1e+06"


@BY
def test_infinities_of_a_constant_are_no_numbers_out_of_range(options: dict[str, Any]) -> None:
    model = load("g (float[2] x) => (float[2] y) <float[2] m = {0, 1}> { [a] y = Add (x, m) }")
    array = np.array([0, -np.inf], np.float32)
    model.graph.initializers["m"].const_value = ir.tensor(array, name="m")
    assert rows(model, **options)["y"][:2] == ("float16", "REQUESTED")
    assert rows(model, "all-fp8e4", **options)["y"][:2] == ("float32", "OUT_OF_RANGE")


@BY
def test_branches_hand_out_what_they_make_and_calls_give_float32(
    options: dict[str, Any],
) -> None:
    text = """g (float[2] x, bool b) => (float[2] y, float[2] z) {
        [a] y = If (b) <then_branch = t () => (float[2] m) { [c] m = Exp (x) },
                        else_branch = e () => (float[2] n) { [d] n = Floor (x) }>
        [f] z = local.F (x)
    } <opset_import: ["": 21], domain: "local"> F (u) => (v) { [g] v = Exp (u) }"""
    found = {name: row[:2] for name, row in rows(text, **options).items()}
    assert found == {
        "y": ("float16", "CARRIES_NARROW"),
        "m": ("float16", "REQUESTED"),
        "n": ("float16", "REQUESTED"),
        "z": ("float32", "CALL"),
        "v": ("float16", "REQUESTED"),
    }


def test_a_product_that_is_asked_for_takes_what_the_target_takes() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) { [a] y = MatMul (x, x) }"
    assert rows(text, narrow_ops=["MatMul"])["y"] == ("float16", "MATMUL_OPERANDS", "generic")


MIXED = """g (float[2,2] x) => (float[2,2] y) {
    [first] h = MatMul (x, x) [second] r = Relu (h) [third] e = Exp (r) [fourth] y = Neg (e)
}"""


def test_the_function_decides_node_by_node() -> None:
    answers = {"first": "wide", "third": "narrow"}
    found = rows(MIXED, policy=lambda node: answers.get(node.name or ""))
    assert found == {
        "h": ("float32", "KEEP_POLICY", "first"),
        "r": ("float16", "REQUESTED", ""),
        "e": ("float16", "REQUESTED", "policy third"),
        "y": ("float16", "REQUESTED", ""),
    }


def test_the_function_is_asked_once_per_node_in_every_scope() -> None:
    asked: list[str] = []
    text = """g (float[2] x, bool b) => (float[2] y) {
        [r] h = Relu (x)
        [i] y = If (b) <then_branch = t () => (float[2] m) { [a] m = Abs (h) },
                        else_branch = e () => (float[2] n) { [n] n = Neg (h) }>
    }"""
    rows(text, policy=lambda node: asked.append(node.name or ""))
    assert sorted(asked) == ["a", "i", "n", "r"]


def test_op_and_node_beat_the_function() -> None:
    def answer(_node: ir.Node) -> str:
        return "wide"

    found = rows(MIXED, policy=answer, narrow_ops=["Exp"], narrow_nodes=["second"])
    assert found == {
        "h": ("float32", "KEEP_POLICY", "first"),
        "r": ("float16", "REQUESTED", "node second"),
        "e": ("float16", "REQUESTED", "op Exp"),
        "y": ("float32", "KEEP_POLICY", "fourth"),
    }


def test_a_name_beats_an_op_in_the_plan() -> None:
    found = rows(MIXED, keep_ops=["Exp", "Relu"], narrow_nodes=["third"])
    assert found["e"] == ("float16", "REQUESTED", "node third")
    assert found["r"] == ("float32", "KEEP_OP", "Relu")
    found = rows(MIXED, narrow_ops=["Exp", "Relu"], keep_nodes=["third"])
    assert found["e"] == ("float32", "KEEP_NODE", "third")
    assert found["r"] == ("float16", "REQUESTED", "op Relu")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"keep_ops": ["Relu"], "narrow_ops": ["Re*", "Relu"]}, "op 'Relu' is to be kept wide"),
        ({"keep_nodes": ["*"], "narrow_nodes": ["f*"]}, "node 'first' is to be kept wide"),
        ({"policy": lambda node: node.op_type == "Exp"}, "policy(first) answers False"),
        ({"narrow_ops": ["Rely"]}, "matches 'Rely' to be narrowed; nearest: Relu"),
        ({"narrow_nodes": ["fist"]}, "matches 'fist' to be narrowed; nearest: first"),
    ],
)
def test_what_cannot_be_done_is_an_error(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        rows(MIXED, **options)
    assert wanted in str(caught.value)


def test_a_request_decides_nothing_for_data_movement() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) { t = Transpose (x) y = Floor (t) }"
    assert rows(text, narrow_ops=["Transpose"])["t"] == ("float32", "CARRIES_WIDE", "")
    found = rows(text, narrow_ops=["Transpose", "Floor"])
    assert found["t"][:2] == ("float16", "FEEDS_NARROW")


@pytest.mark.parametrize(
    ("token", "form"),
    [("all-fp16", Form.NATIVE), ("all-fp8e4", Form.STORAGE), ("all-fp32r", Form.MARKED)],
)
def test_a_request_takes_the_form_that_the_format_has(token: str, form: Form) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Exp (x) }")
    plan = make_plan(model, make_policy(fp32_cast=token, narrow_ops=["Exp"]), GENERIC)
    [decision] = plan.decisions.values()
    assert decision.form is form
    assert decision.reads == (0,)
