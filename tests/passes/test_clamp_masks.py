import numpy as np
import onnx_ir as ir

from onnxcast.formats import FLOAT16
from onnxcast.passes import ClampMasksPass
from tests import golden


@golden.cases("clamp_masks")
def test_clamp_masks(case: golden.Case, update: bool) -> None:
    golden.check(case, ClampMasksPass(FLOAT16), update=update, tolerance=0)


def test_each_constant_is_reported_with_both_numbers() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[2] x) => (float[2] y) <float[2] m = {0, -1e9}> { y = Add (x, m) }"""
    )
    clamping = ClampMasksPass(FLOAT16)
    clamping(model)
    assert [finding.message for finding in clamping.findings] == ["m: -1e+09 became -65504"]


def test_an_infinity_stays() -> None:
    low = ir.Value(name="low", const_value=ir.tensor(np.array([-np.inf, -1e9, 0], np.float32)))
    model = ir.Model(
        ir.Graph([], [], nodes=[], initializers=[low], opset_imports={"": 21}), ir_version=10
    )
    assert ClampMasksPass(FLOAT16)(model).modified
    assert low.const_value is not None
    assert low.const_value.numpy().tolist() == [-np.inf, -65504, 0]
