"""How many elements and bytes values have, as far as their shapes are known."""

import onnx
import onnx_ir as ir
import pytest

from onnxcast.graph.shapes import Shapes, bytes_of, elements
from onnxcast.graph.walk import model_graphs


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        (None, 1),
        (ir.Shape([]), 1),
        (ir.Shape([2, 3]), 6),
        (ir.Shape([2, 0]), 0),
        (ir.Shape([2, "n", None]), 2),
        (ir.Shape([-1, 3]), 3),  # some exporters write so that a dimension is not known
    ],
)
def test_a_dimension_that_is_not_known_counts_one(shape: ir.Shape | None, count: int) -> None:
    assert elements(shape) == count


def test_bytes_are_whole() -> None:
    assert bytes_of(3, 4) == 2


def test_a_branch_without_nodes_does_not_shift_the_others() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    agraph (float[2] x, bool c) => (float[2] y) {
       y = If (c) <
          then_branch = yes () => (float[2] k) <float[2] k = {1, 2}> {},
          else_branch = no () => (float[2] b) { a = Relu (x)  b = Neg (a) }
       >
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    shapes = Shapes(model)
    found = [shapes.of(node.outputs[0]) for graph in model_graphs(model) for node in graph]
    assert found == [ir.Shape([2])] * 3
