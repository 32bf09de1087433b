import onnx_ir as ir
import pytest

from onnxcast.errors import OnnxcastError
from onnxcast.passes import InlineFunctionsPass


def model(call: str, function: str, opset: int = 17) -> ir.Model:
    return ir.from_onnx_text(
        f"""<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[2] x) => (float[2] y) {{ {call} }}
        <domain: "local", opset_import: ["": {opset}, "local": 1]> {function}"""
    )


RELU = "F (a) => (b) { b = Relu (a) }"
MISFITS = {
    "an op of another opset": (
        model("y = local.F (x)", "F (a) => (b) { b = Pow (a, a) }", 14),
        "version 14 in the function",
    ),
    "too many operands": (model("y = local.F (x, x)", RELU), "has 2 operands and 1 results"),
    "too few results": (
        model("y = local.F (x)", "F (a) => (b, c) { b = Relu (a) c = Neg (a) }"),
        "has 1 and 2: make them agree",
    ),
    "too few operands": (
        model("y = local.F (x)", "F (a, c) => (b) { b = Add (a, c) }"),
        "input 1 is marked single",
    ),
    "too many results": (model("y, z = local.F (x)", RELU), "has 1 operands and 2 results"),
    "no attribute": (
        model("y = local.F (x)", "F <to>(a) => (b) { b = Cast <to: int = @to> (a) }"),
        "Required attribute 'to' is missing",
    ),
    "a body that is not valid": (
        model("y = local.F (x)", "F (a) => (b) { b = Relu <axis = 1> (a) }"),
        "Unrecognized attribute: axis",
    ),
    "recursion": (model("y = local.F (x)", "F (a) => (b) { b = local.F (a) }"), "circle"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_function_that_does_not_fit_is_refused_by_name_on_one_line(case: str) -> None:
    given, said = MISFITS[case]
    with pytest.raises(
        OnnxcastError, match=r"local::F.*(--functions keep|make them (agree|end))"
    ) as caught:
        InlineFunctionsPass()(given.clone())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_opset_is_none_where_the_ops_are_the_same() -> None:
    given = model("y = local.F (x)", RELU, 14)
    assert InlineFunctionsPass()(given).modified
    assert [node.op_type for node in given.graph] == ["Relu"]
    assert given.opset_imports[""] == 17
