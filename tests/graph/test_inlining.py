"""Bodies in place of calls: the same values under names that nothing else bears."""

import random

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import to_array

from onnxcast.errors import RefusedError
from onnxcast.graph.inlining import inline
from onnxcast.graph.walk import bodies, model_nodes, values

HEADER = '<ir_version: 9, opset_import: ["" : 19, "l" : 1]> '
IN_L = '<domain: "l", opset_import: ["" : 19, "l" : 1]> '
X = np.linspace(-2, 2, 4, dtype=np.float32).reshape(2, 2)


def check_names(graph: ir.Graph, outer: set[str | None]) -> None:
    """Hold `graph` to names that are its own, and none of a graph around it."""
    names = [value.name for value in dict.fromkeys(values(graph)) if value.name]
    assert len(names) == len(set(names))
    assert outer.isdisjoint(names)
    for body in (body for node in graph for body in bodies(node)):
        check_names(body, outer.union(names))


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` without calls, held to what must be so of every such model."""
    model = ir.from_proto(proto)
    assert inline(model)
    assert not any(node.op_identifier() in model.functions for node in model_nodes(model))
    for scope in (model.graph, *(function.graph for function in model.functions.values())):
        check_names(scope, set())
    assert not inline(model)
    result = ir.to_proto(model)
    onnx.checker.check_model(result, full_check=True)
    assert [info.name for info in result.graph.input] == [info.name for info in proto.graph.input]
    assert list(result.graph.output) == list(proto.graph.output)
    return result


def run(proto: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    found: list[np.ndarray] = session.run(None, {"x": X})
    return found


def text(body: str, *functions: str, outputs: str = "float[2,2] y") -> onnx.ModelProto:
    held = "".join(IN_L + function for function in functions)
    return onnx.parser.parse_model(f"{HEADER} g (float[2,2] x) => ({outputs}) {{ {body} }} {held}")


def branches(operand: str, index: int, number: float) -> dict[str, onnx.GraphProto]:
    """The two branches of an If, with a constant and values of their own."""
    names = f"more{index}", f"less{index}"
    results = [helper.make_empty_tensor_value_info(name) for name in names]
    one = helper.make_tensor(f"one{index}", TensorProto.FLOAT, [1], [number])
    add = helper.make_node("Add", [operand, one.name], [names[0]])
    negate = helper.make_node("Neg", [operand], [names[1]])
    return {
        "then_branch": helper.make_graph([add], "then", [], results[:1], [one]),
        "else_branch": helper.make_graph([negate], "else", [], results[1:]),
    }


def some_nodes(
    inputs: list[str], count: int, callable_: list[str], choose: random.Random
) -> list[onnx.NodeProto]:
    """Nodes that read one another; the last one's last result is the result of all."""
    known, nodes = list(inputs), list[onnx.NodeProto]()
    for index in range(count):
        result, first, second = f"v{index}", choose.choice(known), choose.choice(known)
        kind = choose.choice(["Relu", "LeakyRelu", "Add", "If", *callable_])
        node = helper.make_node(kind, [first], [result], name=f"n{index}" if index % 2 else "")
        if kind == "Add" or kind in callable_:
            node.input.append(second)
        if kind == "LeakyRelu" and len(inputs) > 1:  # in a function
            node.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
        if kind in callable_:
            node.domain = "l"
            given = [helper.make_attribute("slope", choose.random())]
            node.attribute.extend(given if choose.random() < 0.5 else [])
        if kind == "If":
            test = helper.make_tensor("c", TensorProto.BOOL, [], [choose.random() < 0.5])
            nodes.append(helper.make_node("Constant", [], [f"c{index}"], value=test))
            held = branches(first, index, choose.random())
            node = helper.make_node(kind, [f"c{index}"], [result], **held)
        nodes.append(node)
        known.append(result)
    return nodes


def nested(seed: int) -> onnx.ModelProto:
    """Functions that call one another, with attributes, branches and names that clash."""
    choose, functions = random.Random(seed), list[onnx.FunctionProto]()
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("l", 1)]
    for number in range(choose.randint(1, 4)):
        callable_ = [function.name for function in functions]
        nodes = some_nodes(["a", "b"], choose.randint(1, 5), callable_, choose)
        made = [node.output[0] for node in nodes[-1:]]
        default = [helper.make_attribute("slope", 0.25)]
        functions.append(
            helper.make_function(
                "l", f"F{number}", ["a", "b"], made, nodes, opsets, attribute_protos=default
            )
        )
    nodes = some_nodes(["x"], 6, [function.name for function in functions], choose)
    last = helper.make_node("F0", ["x", nodes[-1].output[0]], ["y"], domain="l")
    shown = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    graph = helper.make_graph([*nodes, last], "g", shown[:1], shown[1:])
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


@pytest.mark.parametrize("seed", range(60))
def test_the_values_stay(seed: int) -> None:
    proto = nested(seed)
    before, after = run(proto), run(inlined(proto))
    assert all(map(np.array_equal, before, after))


def test_a_function_hands_an_operand_on_under_the_name_of_the_call() -> None:
    proto = text("h, y = l.F (x)", "F (a) => (a, b) { b = Relu (a) }")
    proto.graph.output.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [2, 2]))
    after = inlined(proto)
    assert [node.op_type for node in after.graph.node] == ["Relu", "Identity"]
    assert np.array_equal(run(after)[1], X)


def test_operands_and_results_may_be_left_out() -> None:
    clip = "F (a, low, high) => (b, c) { c = Relu (a) b = Clip (c, low, high) }"
    one = "one = Constant <value = float {1.0}> ()"
    proto = text(f"{one} y = l.F (x, , one)", clip)
    proto.graph.node[1].output.append("")
    after = inlined(proto)
    assert list(after.graph.node[-1].input)[1:] == ["", "one"]
    assert np.array_equal(run(after)[0], np.clip(X, 0, 1))
    assert np.array_equal(
        run(inlined(text("y = l.F (x)", clip.replace("b, c)", "b)"))))[0], X.clip(0)
    )


def test_an_operand_is_handed_on_to_nobody() -> None:
    proto = text("h, y = l.F (x)", "F (a) => (a, b) { b = Relu (a) }")
    proto.graph.node[0].output[0] = ""
    assert [node.op_type for node in inlined(proto).graph.node] == ["Relu"]


def test_what_graphs_in_functions_hold_is_renamed_and_the_source_is_not() -> None:
    proto = text(
        "w = Neg (x) c = Constant <value = bool {1}> () h = l.F (w, c) y = l.F (h, c)",
        """F (a, c) => (b) { b = If (c) <
            then_branch = then () => (t) <float w = {1}, float w_1 = {10}> {
                s = Add (a, w) t = Add (s, w_1)
            },
            else_branch = other () => (e) <float w = {2}> { e = Add (a, w) }
        > }""",
    )
    before = proto.SerializeToString(deterministic=True)
    after = inlined(proto)
    assert proto.SerializeToString(deterministic=True) == before
    assert np.allclose(run(after)[0], -X + 22)
    held = [
        [(each.name, float(to_array(each))) for each in attribute.g.initializer]
        for node in after.graph.node
        for attribute in sorted(node.attribute, key=lambda each: each.name)
        if attribute.type == onnx.AttributeProto.GRAPH
    ]
    assert held == [[("w_1", 2)], [("w_1", 1), ("w_1_1", 10)]] * 2


def test_a_function_that_nobody_calls_stays_without_calls() -> None:
    called = "F (a) => (b) { q = Neg (a) b = Relu (q) }"
    alone = "G (a) => (b) { q = Relu (a) r = l.F (q) b = l.F (r) }"
    after = inlined(text("q = l.F (x) y = l.F (q)", called, alone))
    (left,) = after.functions
    assert [node.op_type for node in left.node] == ["Relu", "Neg", "Relu", "Neg", "Relu"]
    assert len({name for node in left.node for name in node.output}) == 5


def test_attributes_reach_through_two_calls_or_go() -> None:
    inner = "In <s> (a) => (b) { b = LeakyRelu <alpha: float = @s> (a) }"
    outer = "Out <t> (a) => (b) { b = l.In <s: float = @t> (a) }"
    body = "h = l.Out <t = 0.5> (x) y = l.Out (h)"
    after = inlined(text(body, inner, outer))
    alphas = [[(each.name, each.f) for each in node.attribute] for node in after.graph.node]
    assert alphas == [[("alpha", 0.5)], []]


def test_a_graph_as_an_attribute_is_refused() -> None:
    proto = text("y = l.F (x)", "F (a) => (b) { b = Relu (a) }")
    proto.graph.node[0].attribute.append(
        helper.make_attribute("body", helper.make_graph([], "inner", [], []))
    )
    with pytest.raises(RefusedError, match=r"call l.F\(-> y\) has a graph as an attribute"):
        inline(ir.from_proto(proto))


def test_notes_of_the_call_are_those_of_its_nodes() -> None:
    proto = text("y = l.F (x)", "F (a) => (b) { h = Relu (a) b = Neg (h) }")
    proto.graph.node[0].metadata_props.add(key="layer", value="1")
    proto.functions[0].node[1].metadata_props.add(key="layer", value="2")
    notes = [node.metadata_props[0].value for node in inlined(proto).graph.node]
    assert notes == ["1", "2"]
