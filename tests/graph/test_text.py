import numpy as np
import onnx.parser
import onnx_ir as ir

from onnxcast.graph.text import node_text

HEADER = '<ir_version: 10, opset_import: ["": 21, "mine": 1]>'


def only(graph: str) -> ir.Node:
    return next(iter(ir.from_proto(onnx.parser.parse_model(HEADER + graph)).graph))


def test_a_node_with_name_attributes_and_an_absent_operand() -> None:
    node = only("g (float[2] x) => (float[2] y) { [limit] y = Clip (x, , x) }")
    assert node_text(node) == '[limit] y = Clip (x, "", x)'
    node = only("g (float[2] x) => (float[2] y) { y = mine.Scale <by: float = 2> (x) }")
    assert node_text(node) == "y = mine.Scale <by: float = 2> (x)"


def test_bodies_are_left_out() -> None:
    node = only("""g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = a () => (float[2] p) { p = Neg (x) },
                    else_branch = b () => (float[2] q) { q = Abs (x) }>
    }""")
    assert node_text(node) == (
        'y = If <then_branch: string = "...", else_branch: string = "..."> (c)'
    )


def test_large_tensors_are_told_by_their_shape() -> None:
    tensor = ir.Tensor(np.zeros((300, 3), np.float32))
    node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
    node.outputs[0].name = "w"
    assert node_text(node) == 'w = Constant <value: string = "FLOAT[300,3]"> ()'
    tensor = ir.Tensor(np.array([1.5], np.float32))
    node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
    node.outputs[0].name = "w"
    assert node_text(node) == "w = Constant <value: tensor = float[1] {1.5}> ()"


def test_nothing_in_a_name_or_string_ends_the_text() -> None:
    node = only('g (float[2] x) => (float[2] y) { y = mine.Op <s = "} {"> (x) }')
    assert node_text(node) == 'y = mine.Op <s: string = "} {"> (x)'
