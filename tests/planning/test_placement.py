"""Casts stand so that the plan holds: few, shared, and never on the public interface."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.graph.edit import cast_target
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_graphs, values
from onnxcast.planning import carry_out, make_plan
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from tests.planning.plans import load

FLOAT, FLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16


def placed(text: str, token: str = "all-fp16", *, ir_version: int = 10) -> ir.Model:
    """The model with the plan carried out, checked against the plan and by onnx."""
    model = load(text)
    model.ir_version = ir_version
    interface = [(v.name, v.type, v.shape) for v in (*model.graph.inputs, *model.graph.outputs)]
    plan = make_plan(model, make_policy(fp32_cast=token), GENERIC)
    findings, _, changed = carry_out(model, plan)
    assert len(findings) == len({finding.node for finding in findings})
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    found = [(v.name, v.type, v.shape) for v in (*model.graph.inputs, *model.graph.outputs)]
    assert found == interface
    types, told = ElementTypes(model), plan.types.changed(model, changed)
    for graph in main_graphs(model):
        assert all(types.of(value) == told.of(value) for value in values(graph))
    for group, decision in plan.decisions.items():
        for value in (*group.operand_values(), *group.result_values()):
            assert types.dtype(value) in (decision.format.dtype, None)
    return model


def casts(model: ir.Model) -> list[str]:
    return [
        f"{node.inputs[0].name} -> {node.outputs[0].name}"
        for graph in main_graphs(model)
        for node in graph
        if cast_target(node) is not None and node.inputs[0] is not None
    ]


def test_narrow_regions_have_casts_at_their_borders_only() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) {
        a = Relu (x) b = MatMul (a, a) c = Transpose (b) y = Neg (c)
    }"""
    assert casts(placed(text)) == ["x -> x_float16", "y_inner -> y"]


def test_one_cast_serves_all_narrow_readers_and_one_all_wide_ones() -> None:
    text = """g (float[2,2] x) => (float[2,2] y, float[2,2] z, float[2,2] u, float[2,2] v) {
        a = Relu (x) b = Neg (x) y = Floor (a) z = Ceil (a) u = Round (a) v = Abs (b)
    }"""
    assert casts(placed(text)) == ["x -> x_float16", "a -> a_float32", "v_inner -> v"]


def test_the_same_operand_twice_is_cast_once() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) { h = MatMul (x, x) y = Floor (h) }"
    assert casts(placed(text)) == ["x -> x_float16", "h -> h_float32"]


def test_a_value_that_is_read_and_public_keeps_its_public_name() -> None:
    text = """g (float[2] x) => (float[2] h, float[2] y, float[2] z) {
        h = Relu (x) y = Neg (h) z = Floor (h)
    }"""
    model = placed(text)
    assert casts(model) == ["x -> x_float16", "h_inner -> h", "y_inner -> y"]
    floor = next(node for node in model.graph if node.op_type == "Floor")
    assert floor.inputs[0] is model.graph.outputs[0]


def test_wide_operands_of_pinned_ops_stay_as_they_are() -> None:
    text = "g (float[2] x) => (float[2] y) { h = Floor (x) y = Ceil (h) }"
    model = placed(text)
    assert casts(model) == []


def test_one_element_initializers_are_rewritten_in_place_and_a_tensor_is_cast() -> None:
    text = """g (float[2] x) => (float[2] z)
    <float k = {0.1}, float[1] l = {0.2}, float[2] w = {1, 2}> {
        a = Mul (x, k) b = Add (a, l) c = Sub (b, w) d = Mul (c, k) z = Floor (d)
    }"""
    model = placed(text)
    assert casts(model) == ["x -> x_float16", "w -> w_float16", "d -> d_float32"]
    assert set(model.graph.initializers) == {"k", "l", "w"}
    for name, number, shape in (("k", 0.1, ()), ("l", 0.2, (1,))):
        narrow = model.graph.initializers[name].const_value
        assert narrow is not None
        assert narrow.dtype == FLOAT16
        assert narrow.numpy() == np.float16(number)
        assert narrow.shape == shape


def test_a_rewritten_number_keeps_its_notes() -> None:
    text = "g (float[2] x) => (float[2] y) <float k = {0.1}> { a = Mul (x, k) y = Floor (a) }"
    model = load(text)
    number = ir.Tensor(np.array(0.1, np.float32), name="k", doc_string="a tenth")
    number.metadata_props["from"] = "training"
    model.graph.initializers["k"].const_value = number
    carry_out(model, make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC))
    narrow = ir.to_proto(model).graph.initializer[0]
    assert (narrow.name, narrow.data_type, narrow.doc_string) == ("k", FLOAT16, "a tenth")
    assert [(each.key, each.value) for each in narrow.metadata_props] == [("from", "training")]


def test_a_constant_that_others_read_wide_stays_beside_its_narrow_copy() -> None:
    text = """g (float[2] x) => (float[2] y, float[2] z) <float k = {0.1}> {
        a = Mul (x, k) b = Mul (a, k) y = Floor (b) z = Pow (x, k)
    }"""
    model = placed(text)
    assert set(model.graph.initializers) == {"k", "k_float16"}
    power = next(node for node in model.graph if node.op_type == "Pow")
    assert power.inputs[1] is model.graph.initializers["k"]
    kept = model.graph.initializers["k"].const_value
    assert kept is not None
    assert kept.dtype == FLOAT


def test_a_constant_node_gets_a_narrow_neighbour() -> None:
    text = """g (float[2] x) => (float[2] y) {
        k = Constant <value = float {0.1}> () a = Mul (x, k) y = Floor (a)
    }"""
    model = placed(text)
    constants = [node for node in model.graph if node.op_type == "Constant"]
    assert [node.outputs[0].name for node in constants] == ["k", "k_float16"]
    assert constants[1].attributes["value"].as_tensor().numpy() == np.float16(0.1)


def test_before_ir_version_4_no_initializer_is_added() -> None:
    text = """g (float[2] x, float k) => (float[2] y) <float k = {0.1}> {
        a = Mul (x, k) y = Floor (a)
    }"""
    assert "k -> k_float16" in casts(placed(text, ir_version=3))
    plain = """g (float[2] x) => (float[2] y, float[2] z) <float k = {0.1}> {
        a = Mul (x, k) b = Mul (a, k) y = Floor (b) z = Pow (x, k)
    }"""
    model = load(plain)
    model.ir_version = 3
    carry_out(model, make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC))
    assert set(model.graph.initializers) == {"k"}
    assert model.graph[0].op_type == "Constant"


def test_a_constant_that_may_be_fed_is_cast() -> None:
    text = """g (float[2] x, float k) => (float[2] y) <float k = {0.1}> {
        a = Mul (x, k) y = Floor (a)
    }"""
    assert casts(placed(text)) == ["x -> x_float16", "k -> k_float16", "a -> a_float32"]


def test_an_existing_cast_is_reused() -> None:
    text = """g (float[2,2] x) => (float[2,2] y, float16[2,2] z) {
        a = Floor (x) b = Cast <to = 10> (a) z = Neg (b) m = MatMul (a, a) y = Floor (m)
    }"""
    assert casts(placed(text)) == ["a -> b", "m -> m_float32"]


def test_a_captured_value_is_cast_where_it_is_produced() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        h = Floor (x)
        y = If (c) <
            then_branch = then () => (float[2] t) { t = Relu (h) },
            else_branch = other () => (float[2] e) { i = Neg (h) e = Floor (i) }
        >
    }"""
    model = placed(text)
    assert [node.op_type for node in model.graph] == ["Floor", "Cast", "If"]
    assert casts(model) == ["h -> h_float16", "t_inner -> t", "i -> i_float32"]


def test_a_narrow_value_captured_by_a_wide_reader_is_cast_up_once() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        h = Relu (x)
        y = If (c) <
            then_branch = then () => (float[2] t) { t = Floor (h) },
            else_branch = other () => (float[2] e) { e = Ceil (h) }
        >
    }"""
    assert casts(placed(text)) == ["x -> x_float16", "h -> h_float32"]


def test_a_branch_that_gives_a_narrow_value_gives_it_wide() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <
            then_branch = then () => (float[2] t) { t = Relu (x) },
            else_branch = other () => (float[2] e) { e = Floor (x) }
        >
    }"""
    assert casts(placed(text)) == ["x -> x_float16", "t_inner -> t"]


@pytest.mark.parametrize("token", ["none", "matmult-fp16"])
def test_an_empty_plan_changes_no_byte(token: str) -> None:
    text = "g (float[2] x) => (float[2] y) <float k = {0.1}> { h = Mul (x, k) y = Relu (h) }"
    model = load(text)
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    done = carry_out(model, make_plan(model, make_policy(fp32_cast=token), GENERIC))
    assert done == ([], False, {})
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_only_the_products_own_use_of_a_value_is_rewired() -> None:
    text = """g (float[2,2] x) => (float[2,2] y, float[2,2] z) {
        h = Relu (x) y = MatMul (h, h) z = Neg (h)
    }"""
    model = placed(text, "matmult-fp16")
    assert casts(model) == ["h -> h_float16", "y_inner -> y"]
    negation = next(node for node in model.graph if node.op_type == "Neg")
    assert negation.inputs[0] is not None
    assert negation.inputs[0].name == "h"


def test_declared_types_are_kept_true_and_undeclared_stay_so() -> None:
    text = "g (float[2] x) => (float[2] y) <float[2] a> { a = Relu (x) b = Neg (a) y = Floor (b) }"
    model = placed(text)
    values = {output.name: output for node in model.graph for output in node.outputs}
    assert values["a"].dtype == FLOAT16
    assert values["b"].type is None


def test_new_names_are_free_in_every_scope() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        h = Floor (x)
        y = If (c) <
            then_branch = then () => (float[2] t) { h_float16 = Relu (h) t = Floor (h_float16) },
            else_branch = other () => (float[2] e) { e = Neg (h) }
        >
    }"""
    assert "h -> h_float16_1" in casts(placed(text))
