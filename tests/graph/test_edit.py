"""Edits keep names unique in every scope, reuse Casts and keep what is declared true."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.graph.edit import (
    Casts,
    Names,
    cast_target,
    constant_of,
    move_outputs,
    retype,
    set_constant,
)
from onnxcast.graph.walk import bodies, label, main_graphs, model_graphs, op_name

HEADER = '<ir_version: 10, opset_import: ["": 21, "local": 1]>'
FLOAT16 = ir.DataType.FLOAT16


def load(text: str) -> ir.Model:
    return ir.from_onnx_text(HEADER + text)


def check(model: ir.Model) -> onnx.ModelProto:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def names_in(model: ir.Model) -> list[str]:
    return [n for graph in model_graphs(model) for n in map(label, graph)]


NESTED = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    y = If (c) <
        then_branch = then () => (float[2] t) { inner = Relu (x) t = Neg (inner) },
        else_branch = other () => (float[2] e) <float[2] v = {1, 2}> { e = Add (w, v) }
    >
}
<opset_import: ["": 18], domain: "local"> F (a) => (b) { deep = Relu (a) b = Neg (deep) }"""


def test_a_fresh_name_is_free_in_every_scope() -> None:
    names = Names(load(NESTED))
    for taken in ("x", "w", "v", "inner", "t", "deep", "a", "y"):
        assert names.fresh(taken) == f"{taken}_1"
    assert names.fresh("new") == "new"
    assert names.fresh("new") == "new_1"
    assert names.fresh("w_1") == "w_1_1"


def test_scopes_are_walked_outermost_first_with_functions_last() -> None:
    model = load(NESTED)
    assert [graph.name for graph in main_graphs(model)] == ["g", "then", "other"]
    assert len(list(model_graphs(model))) == 4
    [branch] = model.graph
    assert [body.name for body in bodies(branch)] == ["then", "other"]


def test_nodes_are_labelled_by_name_else_by_op_and_result() -> None:
    model = load("g (float[2] x) => (float[2] y) { h = local.Op (x) y = Relu (h) }")
    other, relu = model.graph
    relu.name = "last"
    assert (label(other), label(relu)) == ("local.Op(-> h)", "last")
    assert (op_name(other), op_name(relu)) == ("local.Op", "Relu")


def test_a_casts_target_is_told_for_onnxs_cast_only() -> None:
    model = load(
        """g (float[2] x) => (float[2] y) {
            h = Cast <to = 10> (x) o = local.Cast <to = 10> (h) y = Relu (o)
        }"""
    )
    assert [cast_target(node) for node in model.graph] == [FLOAT16, None, None]


@pytest.mark.parametrize("to", ["0", "99", "-1", '"FLOAT16"', "1.0", "[10]", "int = @other"])
def test_a_cast_to_what_is_no_type_has_no_target(to: str) -> None:
    given = f": {to}" if "@" in to else f" = {to}"
    model = load(f"g (float[2] x) => (float[2] y) {{ h = Cast <to{given}> (x) y = Relu (x) }}")
    assert [cast_target(node) for node in model.graph] == [None, None]


def test_a_constant_is_an_initializer_or_constant_node_that_nobody_can_feed() -> None:
    model = load(
        """g (float[1] x, float[1] fed) => (float[1] y)
        <float[1] w = {1}, float[1] fed = {2}, float[1] k> {
            k = Constant <value = float[1] {3}> ()
            h = Add (w, fed) y = Add (h, k)
        }"""
    )
    values = {v.name: v for node in model.graph for v in (*node.inputs, *node.outputs) if v}
    found = {name: constant_of(value) for name, value in values.items()}
    assert {name for name, tensor in found.items() if tensor is not None} == {"w", "k"}
    assert constant_of(None) is None


@pytest.mark.parametrize("name", ["w", "k"])
def test_a_constant_is_replaced_and_retyped(name: str) -> None:
    model = load(
        """g () => (float[1] y) <float[1] w = {1}> {
            k = Constant <value = float[1] {3}> () y = Add (w, k)
        }"""
    )
    add = model.graph[1]
    value = next(v for v in add.inputs if v is not None and v.name == name)
    set_constant(value, ir.tensor(np.array([5], np.float16)))
    tensor = constant_of(value)
    assert tensor is not None
    assert tensor.numpy().tolist() == [5]
    assert tensor.dtype == FLOAT16
    assert value.dtype in (None, FLOAT16)


def test_an_undeclared_value_stays_undeclared() -> None:
    model = load("g (float[2] x) => (float[2] y) { h = Relu (x) y = Relu (h) }")
    hidden = model.graph[0].outputs[0]
    hidden.type = None
    retype(hidden, FLOAT16)
    assert hidden.type is None
    retype(model.graph.inputs[0], FLOAT16)
    assert model.graph.inputs[0].dtype == FLOAT16


def test_one_cast_serves_all_readers_and_stands_behind_the_producer() -> None:
    model = load("g (float[2] x) => (float[2] y) { h = Relu (x) y = Neg (h) }")
    casts = Casts(model)
    hidden = model.graph[0].outputs[0]
    first = casts.of(hidden, FLOAT16)
    assert casts.of(hidden, FLOAT16) is first
    assert first.name == "h_float16"
    assert [node.op_type for node in model.graph] == ["Relu", "Cast", "Neg"]
    assert len(casts.added) == 1


def test_casts_of_inputs_stand_first_in_the_order_asked_for() -> None:
    model = load("g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z) }")
    casts = Casts(model)
    for value in list(model.graph.inputs):
        casts.of(value, FLOAT16)
    results = [node.outputs[0].name for node in model.graph]
    assert results == ["x_float16", "z_float16", "y"]


def test_a_cast_in_a_graph_without_nodes_is_its_first() -> None:
    model = load("g (float[2] x) => (float[2] x) { }")
    Casts(model).of(model.graph.inputs[0], FLOAT16)
    assert [node.op_type for node in model.graph] == ["Cast"]


def test_an_existing_cast_is_reused_and_moved_before_its_new_readers() -> None:
    model = load(
        """g (float[2] x) => (float[2] y, float16[2] z) {
            h = Relu (x) y = Neg (h) k = Cast <to = 10> (h) z = Relu (k)
        }"""
    )
    casts = Casts(model)
    found = casts.of(model.graph[0].outputs[0], FLOAT16)
    assert found.name == "k"
    assert [node.op_type for node in model.graph] == ["Relu", "Cast", "Neg", "Relu"]
    assert casts.added == []
    check(model)


@pytest.mark.parametrize(
    "text",
    [
        # Its result is a graph output, which has a public name and place.
        "g (float[2] x) => (float16[2] k) { h = Relu (x) k = Cast <to = 10> (h) }",
        # It says more than the type.
        """g (float[2] x) => (float[2] y) {
            h = Relu (x) k = Cast <to = 10, saturate = 0> (h) y = CastLike (k, x)
        }""",
        # It is not the ONNX op.
        "g (float[2] x) => (float16[2] y) { h = Relu (x) y = local.Cast <to = 10> (h) }",
        # It is in a branch, where others cannot read it.
        """g (float[2] x, bool c) => (float16[2] y) {
            h = Relu (x)
            y = If (c) <
                then_branch = then () => (float16[2] t) { k = Cast <to = 10> (h) t = Neg (k) },
                else_branch = other () => (float16[2] e) { l = Cast <to = 10> (h) e = Abs (l) }
            >
        }""",
    ],
)
def test_a_cast_that_is_not_plain_or_not_here_is_not_reused(text: str) -> None:
    model = load(text)
    casts = Casts(model)
    assert casts.of(model.graph[0].outputs[0], FLOAT16).name == "h_float16"
    assert len(casts.added) == 1


def test_a_cast_of_a_captured_value_stands_in_the_scope_of_its_producer() -> None:
    model = load(NESTED)
    casts = Casts(model)
    casts.of(model.graph.inputs[1], FLOAT16)
    casts.of(model.graph.initializers["w"], FLOAT16)
    branch = model.graph[-1]
    inner = bodies(branch)[0]
    casts.of(inner[0].outputs[0], FLOAT16)
    assert [node.op_type for node in model.graph] == ["Cast", "Cast", "If"]
    assert [node.op_type for node in inner] == ["Relu", "Cast", "Neg"]
    check(model)


def test_an_output_moves_with_its_public_name_and_doc() -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Relu (x) z = Neg (y) }")
    old = model.graph.outputs[0]
    old.doc_string = "the result"
    casts = Casts(model)
    new = casts.of(old, FLOAT16)
    move_outputs({old: new}, casts.names)
    assert [output.name for output in model.graph.outputs] == ["y"]
    assert [new.doc_string, old.doc_string] == ["the result", None]
    assert old.name == "y_inner"
    neg = model.graph[-1]
    assert neg.inputs[0] is old


def test_every_place_of_an_output_moves() -> None:
    model = load("g (float[2] x) => (float[2] y, float[2] z) { y = Relu (x) z = Neg (x) }")
    model.graph.outputs[1] = model.graph.outputs[0]
    old = model.graph.outputs[0]
    casts = Casts(model)
    new = casts.of(old, FLOAT16)
    move_outputs({old: new}, casts.names)
    assert [output is new for output in model.graph.outputs] == [True, True]
