"""Weights stored narrow by the plan: what a Cast for each and shrinking give, without the Casts."""

from pathlib import Path

import hypothesis
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.diagnostics import Code
from onnxcast.passes import AutocastPass, ShrinkInitializersPass
from onnxcast.pipeline import narrowing_passes, preparing_passes
from onnxcast.planning import PlannedPass
from onnxcast.policy import Policy, make_policy
from onnxcast.targets import GENERIC
from tests import golden, strategies

ALIKE = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {1, 2, 3, 4}> {
        a = MatMul (x, w)  b = MatMul (a, w)  c = MatMul (b, v)  d = Floor (v)  y = Add (c, d)
    }"""


def placed(proto: onnx.ModelProto, policy: Policy, *, store: bool) -> ir.Model:
    model = ir.from_proto(proto)
    for pass_ in (*preparing_passes(policy, GENERIC), *narrowing_passes(policy, GENERIC)):
        if isinstance(pass_, PlannedPass) and not store:
            assert pass_.store is not None
            pass_.store = None
        pass_(model)
    return model


@pytest.mark.parametrize("token", ["all-fp16", "all-mixed", "matmult", "all-fp8e4"])
@hypothesis.given(proto=strategies.models())
@hypothesis.settings(max_examples=25, deadline=None)
def test_the_result_is_that_of_casts_and_shrinking(token: str, proto: onnx.ModelProto) -> None:
    policy = make_policy(fp32_cast=token)
    texts = [golden.text_of(placed(proto, policy, store=store)) for store in (True, False)]
    assert texts[0] == texts[1]


def autocast(model: ir.Model) -> AutocastPass:
    pass_ = AutocastPass(
        policy=make_policy(fp32_cast="all-fp16"), store=ShrinkInitializersPass.store
    )
    assert pass_(model).modified
    return pass_


def test_what_others_read_wide_is_cast() -> None:
    model = ir.from_proto(onnx.parser.parse_model(ALIKE))
    before = ShrinkInitializersPass.tensor_shrink
    codes = {each.value: each.code for each in autocast(model).findings}
    assert codes["w"] is Code.INITIALIZER_SHRUNK
    assert codes["v_float16"] is Code.CAST_ADDED
    assert model.graph.initializers["w"].dtype is ir.DataType.FLOAT16
    assert model.graph.initializers["v"].dtype is ir.DataType.FLOAT
    assert ShrinkInitializersPass.tensor_shrink == before + 16


def test_data_that_another_reads_wide_is_not_stored_twice(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(np.arange(4, dtype="<f4").tobytes())
    model = ir.from_proto(onnx.parser.parse_model(ALIKE))
    for name in ("w", "v"):
        model.graph.initializers[name].const_value = ir.ExternalTensor(
            "w.data", 0, 16, ir.DataType.FLOAT, shape=ir.Shape([2, 2]), name=name, base_dir=tmp_path
        )
    assert {each.code for each in autocast(model).findings} == {Code.CAST_ADDED}
    assert model.graph.initializers["w"].dtype is ir.DataType.FLOAT


def test_without_inline_cast_every_weight_is_cast() -> None:
    policy = make_policy(fp32_cast="all-fp16", inline_cast=False)
    (planned,) = (p for p in narrowing_passes(policy, GENERIC) if isinstance(p, PlannedPass))
    assert planned.store is None
