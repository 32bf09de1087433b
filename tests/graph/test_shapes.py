"""How many elements and bytes values have, as far as their shapes are known."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.graph import shapes
from onnxcast.graph.native import NativeFailure
from onnxcast.graph.shapes import Shapes, bytes_of, elements
from onnxcast.graph.skeleton import skeleton
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
    results = [node.outputs[0] for graph in model_graphs(model) for node in graph]
    assert [shapes.elements(value) for value in results] == [2] * 3


NESTED = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[N, 4] x, bool c, int64[1] k) => (float[N, 4] y) <int64[2] s = {2, -1}> {
        r = Reshape (x, s)
        d = Shape (r)
        e = Reshape (x, d)
        f = local.F <axis = 1> (e, )
        y = If (c) <
            then_branch = t () => (float[N, 4] a) { b = Neg (f)  a = Abs (b) },
            else_branch = o () => (float[N, 4] z) { z = Identity (x) }
        >
    }
    <domain: "local", opset_import: ["" : 21]>
    F <axis> (m, n) => (l) { j = Softmax <axis : int = @axis> (m)  l = Relu (j) }"""


def test_onnx_infers_the_same_from_the_skeleton_as_from_the_whole() -> None:
    model = ir.from_proto(onnx.parser.parse_model(NESTED))
    whole, bare = (
        onnx.shape_inference.infer_shapes(proto, data_prop=True)
        for proto in (ir.to_proto(model), skeleton(model))
    )
    found = {info.name: info for info in bare.graph.value_info}
    assert found.keys() == {"r", "d", "e", "f"}
    assert all(found[info.name] == info for info in whole.graph.value_info if info.name != "s")
    for proto in (whole, bare):
        for scope in (proto.graph, *proto.functions):
            for node in scope.node:
                node.ClearField("name")
        proto.graph.ClearField("value_info")
    assert bare.graph == whole.graph
    assert list(bare.functions) == list(whole.functions)


def test_a_large_initializer_has_a_shape_and_no_content() -> None:
    tensor = ir.tensor(np.zeros((32, 32), np.float32), name="w")
    weight = ir.Value(name="w", const_value=tensor)
    node = ir.node("Relu", [weight])
    graph = ir.Graph([], node.outputs, nodes=[node], initializers=[weight], name="g")
    (held,) = skeleton(ir.Model(graph, ir_version=10)).graph.initializer
    assert (held.name, list(held.dims), held.data_type) == ("w", [32, 32], onnx.TensorProto.FLOAT)
    assert not held.HasField("raw_data")


def test_a_cast_that_came_later_has_the_shape_of_what_it_reads() -> None:
    model = ir.from_proto(onnx.parser.parse_model(NESTED))
    shapes = Shapes(model)
    value = next(node for node in model.graph if node.op_type == "Reshape").outputs[0]
    assert shapes.is_ranked(value)
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT16}).outputs[0]
    assert shapes.is_ranked(cast)
    assert shapes.elements(cast) == shapes.elements(value) == 2
    unknown = ir.node("Custom", [value], domain="local").outputs[0]
    assert not shapes.is_ranked(unknown)
    assert shapes.elements(unknown) == 1


def test_a_huge_vector_is_no_list_of_sizes() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1099511627776] x) => (float[n] y) { a = Add (x, x)  y = Exp (a) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert Shapes(model).elements(model.graph[0].outputs[0]) == 2**40


def test_a_shape_that_onnx_cannot_tell_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def died(*_: object, **__: object) -> onnx.ModelProto:
        raise NativeFailure("crashed", died=True)

    monkeypatch.setattr(shapes, "infer_shapes", died)
    model = ir.from_proto(onnx.parser.parse_model(NESTED))
    assert not Shapes(model).is_ranked(model.graph[0].outputs[0])
