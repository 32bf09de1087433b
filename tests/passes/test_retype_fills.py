import onnx_ir as ir

from onnxcast.diagnostics import Code
from onnxcast.passes import RetypeFillsPass


def test_each_is_reported() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        agraph (int64[1] n) => (float16[N] y) {
            [fill] one = ConstantOfShape <value = float[1] {1}> (n)
            low = Cast <to = 10> (one)
            y = Neg (low)
        }"""
    )
    retype = RetypeFillsPass()
    retype(model)
    (finding,) = retype.findings
    assert finding.code is Code.FILL_RETYPED
    assert (finding.node, finding.message) == ("fill", "one is filled as float16")
