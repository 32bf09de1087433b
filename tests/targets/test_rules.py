"""What a target that compiles ONNX itself takes: ATC's opsets, domains, ops and element types."""

import dataclasses

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxcast
from onnxcast.formats import FLOAT16
from onnxcast.targets import Target, get_target

ATC = ("atc-ascend310p", "atc-ascend910b")


def parsed(text: str, imports: str = '"" : 17', ir_version: int = 8) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(
        f"<ir_version: {ir_version}, opset_import: [{imports}]> {text}"
    )
    return model


MATMUL = "g (float[2,2] x) => (float[2,2] y) { h = MatMul (x, x) y = Relu (h) }"


@pytest.mark.parametrize("target", ATC)
def test_what_it_takes_is_narrowed_and_proved(target: str) -> None:
    result = onnxcast.optimize(parsed(MATMUL), scope="all", target=target)
    assert result.verified
    assert result.report.token == "all-fp16"
    assert result.report.opset == (17, 17)
    advice = result.report.to_dict()["advice"]
    assert any("--precision_mode_v2=origin" in sentence for sentence in advice)


@pytest.mark.parametrize("target", ATC)
def test_an_older_opset_is_raised_to_the_first_that_it_takes(target: str) -> None:
    result = onnxcast.optimize(parsed(MATMUL, '"" : 7'), scope="all", target=target)
    assert result.report.opset == (7, 8)


@pytest.mark.parametrize(
    ("imports", "options", "said"),
    [
        ('"" : 19', {}, "the model is at opset 19, the target takes none after 18: export the"),
        ('"" : 17', {"opset": 19}, "opset 19 is more than the target takes: give 18 or less"),
        ('"" : 7', {"opset": "keep"}, "all-fp16 needs opset 8, the model is at 7"),
    ],
)
def test_other_opsets_are_refused(imports: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(onnxcast.OnnxcastError) as caught:
        onnxcast.optimize(parsed(MATMUL, imports), target=ATC[0], **options)  # type: ignore[arg-type] # any
    assert str(caught.value).startswith(said)


def test_bfloat16_is_raised_no_further_than_the_window() -> None:
    conv = "g (float[1,1,4,4] x, float[1,1,2,2] w) => (float[1,1,3,3] y) { y = Conv (x, w) }"
    result = onnxcast.optimize(parsed(conv, '"" : 11'), fp32_cast="all", target=ATC[1])
    assert result.report.opset == (11, 13)
    free = dataclasses.replace(get_target(ATC[1]), opsets=(8, 22))
    result = onnxcast.optimize(parsed(conv, '"" : 11'), fp32_cast="all", target=free)
    assert result.report.opset == (11, 22)


@pytest.mark.parametrize(
    ("target", "token", "said"),
    [
        (
            ATC[0],
            "all",
            "target atc-ascend310p has no bfloat16: give another target or one of fp",
        ),
        (ATC[1], "all-fp8e4", "target atc-ascend910b has no float8e4m3fn: give another target or"),
        (ATC[0], "matmult-fp32r", "target atc-ascend310p has no float32r: give"),
        ("a2a3", "all-fp8e4", "target ascend910b (a2a3) has no float8e4m3fn: give another target"),
        ("a2a3", "inputs-fp32r", "target ascend910b (a2a3) has no float32r: give another target"),
    ],
)
def test_a_format_that_the_target_lacks_is_told_first(target: str, token: str, said: str) -> None:
    for call in (onnxcast.optimize, onnxcast.plan):
        with pytest.raises(onnxcast.InputError) as caught:
            call(parsed(MATMUL), fp32_cast=token, target=target)
        assert str(caught.value).startswith(said)


QDQ = """g (float[2,2] x) => (float[2,2] y, float[2] z) <float s = {0.1}, uint8 zero = {0}> {
    [down] q = QuantizeLinear (x, s, zero) [up] d = DequantizeLinear (q, s, zero)
    y = MatMul (d, d)
    [scaled] t = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x)
    z = ReduceMax <axes = [1], keepdims = 0> (t)
}"""


def test_all_that_it_does_not_take_is_told_on_one_line() -> None:
    with pytest.raises(onnxcast.RefusedError) as caught:
        onnxcast.optimize(parsed(QDQ, '"" : 17, "ai.onnx.ml" : 3'), scope="all", target=ATC[0])
    said = str(caught.value)
    assert said.startswith("target atc-ascend310p does not take the model: ")
    assert "node 'down' is a QuantizeLinear (no ONNX plugin in CANN" in said
    assert "node 'up' is a DequantizeLinear (" in said
    assert "node 'scaled' is a ai.onnx.ml.Scaler, which is no op of ONNX" in said
    assert "\n" not in said


def test_element_types_that_it_lacks_are_told() -> None:
    mine = Target(name="mine", preferred=FLOAT16, formats=(FLOAT16,))
    with pytest.raises(onnxcast.RefusedError, match="value 'x' is float32; value 'h' is float32"):
        onnxcast.optimize(parsed(MATMUL), scope="all", target=mine)


def test_functions_are_inlined_for_a_target_of_one_domain_and_unused_imports_go() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) { y = local.twice (x) }
    <domain: "local", opset_import: ["" : 17]> twice (a) => (b) { b = MatMul (a, a) }"""
    imports = '"" : 17, "local" : 1, "ai.onnx.ml" : 3'
    result = onnxcast.optimize(parsed(text, imports), scope="all", target=ATC[0])
    made = result.to_proto()
    assert [(each.domain, each.version) for each in made.opset_import] == [("", 17)]
    assert not made.functions
    assert "MatMul" in [node.op_type for node in made.graph.node]
    again = onnxcast.optimize(made, scope="all", target=ATC[0])
    assert again.to_proto() == made
    with pytest.raises(onnxcast.RefusedError, match=r"is a local\.twice, which is no op of ONNX"):
        onnxcast.optimize(parsed(text, imports), scope="all", target=ATC[0], functions="keep")


def test_the_proof_is_on_the_samples_given() -> None:
    sample = {"x": np.eye(2, dtype=np.float32)}
    result = onnxcast.optimize(parsed(MATMUL), scope="matmult", target=ATC[1], inputs=sample)
    assert result.verified


@pytest.mark.parametrize(
    ("target", "token", "kind", "told"),
    [
        (ATC[0], "none", "float", ["product multiplies float32 with float32"]),
        (ATC[0], "all-fp16", "float", []),
        ("a5", "none", "float", []),
        ("a5", "none", "double", ["product multiplies float64 with float64"]),
        ("generic", "none", "double", []),
    ],
)
def test_matmuls_of_types_that_it_does_not_multiply_are_told(
    target: str, token: str, kind: str, told: list[str]
) -> None:
    text = f"g ({kind}[2,2] x) => ({kind}[2,2] y) {{ [product] y = MatMul (x, x) }}"
    result = onnxcast.optimize(parsed(text), fp32_cast=token, target=target)
    found = [each for each in result.report.findings if each.code.name == "OPERANDS_NOT_TAKEN"]
    assert [each.message for each in found] == told
