"""Nodes are gone through in one order, whatever goes through them, and at any depth."""

import onnx
import onnx_ir as ir

from onnxcast.files import tensor_slots
from onnxcast.graph.repeats import repeated_casts
from onnxcast.graph.walk import main_graphs, main_nodes, model_graphs, model_nodes
from onnxcast.passes import TidyPass

NESTED = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[2] x, bool c) => (float[2] y) {
    [a] p = local.F (x)
    [b] q = If (c) <
        then_branch = t () => (float[2] r) {
            [c1] k = Constant <value = float[2] {1, 2}> ()
            [d] r = If (c) <
                then_branch = u () => (float[2] s) { [e] s = Add (x, k) },
                else_branch = v () => (float[2] w) <float[2] i = {3, 4}> { [f] w = Neg (i) }
            >
        },
        else_branch = z () => (float[2] o) { [g] o = Relu (x) }
    >
    [h] y = Add (p, q)
}
<domain: "local", opset_import: ["" : 21]> F (m) => (n) { [j] l = Relu (m) [k] n = Neg (l) }"""

DEPTH = 150


def nested() -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(NESTED))


def deep(body: list[ir.Node], result: ir.Value, outer: list[ir.Value]) -> ir.Model:
    """A model with `body` inside of many Ifs."""
    nodes = body
    for _ in range(DEPTH):
        graph = ir.Graph([], [result], nodes=nodes)
        nodes = [ir.node("If", [outer[1]], {"then_branch": graph})]
        result = nodes[-1].outputs[0]
    return ir.Model(ir.Graph(outer, [result], nodes=nodes, opset_imports={"": 21}), ir_version=10)


def test_nodes_come_in_the_order_of_their_graphs() -> None:
    model = nested()
    assert list(main_nodes(model)) == [n for graph in main_graphs(model) for n in graph]
    assert list(model_nodes(model)) == [n for graph in model_graphs(model) for n in graph]
    assert [node.name for node in model_nodes(model)] == ["a", "b", "h", "c1", *"defgjk"]


def test_tensors_come_node_by_node_with_what_is_inside() -> None:
    model = nested()
    assert [slot.tensor.numpy().tolist() for slot in tensor_slots(model)] == [[1, 2], [3, 4]]


def test_a_cast_in_the_innermost_scope_repeats_the_outermost_one() -> None:
    x, c = ir.Value(name="x"), ir.Value(name="c")
    inner = ir.node("Cast", [x], {"to": ir.DataType.FLOAT16})
    model = deep([inner], inner.outputs[0], [x, c])
    first = ir.node("Cast", [x], {"to": ir.DataType.FLOAT16})
    model.graph.insert_before(model.graph[0], first)
    assert repeated_casts(model) == {inner.outputs[0]: first.outputs[0]}


def test_what_is_done_in_one_branch_is_not_seen_in_the_other() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x, bool c) => (float16[2] y) {
        y = If (c) <
            then_branch = t () => (float16[2] a) { a = Cast <to = 10> (x) },
            else_branch = e () => (float16[2] b) { b = Cast <to = 10> (x) }
        >
    }"""
    assert repeated_casts(ir.from_proto(onnx.parser.parse_model(text))) == {}


def test_a_node_behind_what_a_body_of_it_reads_is_put_before() -> None:
    model = nested()
    relu, second = (next(n for n in model_nodes(model) if n.name == name) for name in ("a", "b"))
    add = next(node for node in model_nodes(model) if node.name == "e")
    add.replace_input_with(0, relu.outputs[0])
    assert not TidyPass()(model).modified
    model.graph.remove(relu)
    model.graph.insert_after(second, relu)
    assert TidyPass()(model).modified
    assert [node.name for node in model.graph] == ["a", "b", "h"]
