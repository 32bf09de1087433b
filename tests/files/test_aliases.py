"""Graph outputs that are graph inputs or initializers themselves."""

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.files import read_model


def parsed(text: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> {text}'
    )
    onnx.checker.check_model(model)
    return model


def test_an_input_keeps_its_own_shape() -> None:
    model = parsed("g (float[n] x) => (float[3] x, float[n] y) { y = Relu (x) }")
    read = ir.to_proto(read_model(model).model)
    assert list(read.graph.input) == list(model.graph.input)
    assert read.graph.output[1] == model.graph.output[1]


@pytest.mark.parametrize("shape", ["[n]", "[2]"])
def test_an_initializers_output_keeps_its_shape(shape: str) -> None:
    model = parsed(f"g () => (float{shape} w) <float[2] w = {{1, 2}}> {{ }}")
    read = ir.to_proto(read_model(model).model)
    assert list(read.graph.output) == list(model.graph.output)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "g (float[n] x) => (double[n] x) { }",
            "output 'x' is declared double, it is a graph input of type float",
        ),
        (
            "g (float[n] x) => (seq(float[n]) x) { }",
            "output 'x' is declared sequence_type, it is a graph input of type float",
        ),
        (
            "g () => (float[2] w) <double[2] w = {1, 2}> { }",
            "output 'w' is declared float, it is an initializer of type double",
        ),
        (
            "g (float[2] w) => (double[2] w) <float[2] w = {1, 2}> { }",
            "output 'w' is declared double, it is a graph input of type float",
        ),
    ],
)
def test_two_types_for_one_value_are_an_input_error(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_model(parsed(text))
    assert str(caught.value) == f"the ModelProto: {said}; declare both alike"
