import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.passes import NormalisePass


@pytest.mark.parametrize(
    ("declared", "node", "known"),
    [
        ("int64[2]", "Relu (x)", "tensor(float)"),
        ("float[2]", "Shape (x)", "tensor(int64)"),
        ("float[2]", "SequenceConstruct (x)", "seq(tensor(float))"),
    ],
)
def test_an_output_declared_as_what_it_is_not_is_an_input_error(
    declared: str, node: str, known: str
) -> None:
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => ({declared} y) {{ y = {node} }}"""
    )
    with pytest.raises(InputError) as caught:
        NormalisePass()(model)
    element = declared.partition("[")[0]
    assert str(caught.value) == (
        f"output 'y' is declared tensor({element}), it is {known}: declare it so, or cast it"
    )


def test_what_is_declared_for_an_initializer_is_its_tensors_type_and_shape() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] y)
        <float[2] w = {1, 2}, double[3] w, float[1] k = {1}, float k, float[2] bare = {3, 4}> {
            a = Mul (x, k) b = Add (a, bare) y = Add (b, w)
        }"""
    )
    model.graph.initializers["bare"].type = None
    assert NormalisePass()(model).modified
    found = {name: (value.type, value.shape) for name, value in model.graph.initializers.items()}
    assert found == {
        "w": (ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])),
        "k": (ir.TensorType(ir.DataType.FLOAT), ir.Shape([1])),
        "bare": (None, ir.Shape([2])),
    }
    assert not NormalisePass()(model).modified


def test_an_initializer_that_is_a_wrong_output_is_an_input_error() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        g () => (double[2] w) <float[2] w = {1, 2}> { }"""
    )
    with pytest.raises(InputError, match=r"declared tensor\(double\), it is tensor\(float\)"):
        NormalisePass()(model)


def test_an_output_of_an_optional_type_is_left_to_the_checker() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (optional(float[2]) y) { y = Optional (x) }"""
    )
    assert not NormalisePass()(model).modified
