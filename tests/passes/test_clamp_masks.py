import dataclasses

import numpy as np
import onnx_ir as ir

from onnxcast.formats import FLOAT8E4
from onnxcast.passes import ClampMasksPass
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from tests import golden

FP16 = make_policy(fp32_cast="all-fp16", clamp_masks=True)


@golden.cases("clamp_masks")
def test_clamp_masks(case: golden.Case, update: bool) -> None:
    golden.check(case, ClampMasksPass(FP16), update=update, tolerance=0)


def test_each_constant_is_reported_with_both_numbers() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[2] x) => (float[2] y) <float[2] m = {0, -1e9}> { y = Add (x, m) }"""
    )
    clamping = ClampMasksPass(FP16)
    clamping(model)
    assert [finding.message for finding in clamping.findings] == ["m: -1e+09 became -65504"]


def test_an_infinity_stays() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[3] x) => (float[3] y) <float[3] m = {0, -1e9, 0}> { y = Add (x, m) }"""
    )
    low = model.graph.initializers["m"]
    low.const_value = ir.tensor(np.array([-np.inf, -1e9, 0], np.float32), name="m")
    assert ClampMasksPass(FP16)(model).modified
    assert low.const_value is not None
    assert low.const_value.numpy().tolist() == [-np.inf, -65504, 0]


def test_what_no_narrow_op_reads_stays() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[2] x) => (float[2] y) <float[2] m = {0, -1e9}> { y = Add (x, m) }"""
    for policy in (
        make_policy(fp32_cast="matmult-fp16", clamp_masks=True),
        make_policy(fp32_cast="all-fp16", keep_ops=["Add"], clamp_masks=True),
    ):
        assert not ClampMasksPass(policy)(ir.from_onnx_text(text)).modified


def test_the_range_is_the_targets() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[2] x) => (float[2] y) <float[2] m = {0, -1e9}> { y = Add (x, m) }"""
    model = ir.from_onnx_text(text)
    policy = make_policy(fp32_cast="all-fp8e4", clamp_masks=True)
    ClampMasksPass(policy, dataclasses.replace(GENERIC, float8e4=FLOAT8E4))(model)
    tensor = model.graph.initializers["m"].const_value
    assert tensor is not None
    assert tensor.numpy().tolist() == [0, -240]
