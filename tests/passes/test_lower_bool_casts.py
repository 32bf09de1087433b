import dataclasses

import onnx_ir as ir
import pytest

from onnxcast.formats import BOOL, FLOAT32
from onnxcast.passes import LowerBoolCastsPass
from onnxcast.targets import NativeCast, get_target
from tests import golden


@golden.cases("lower_bool_casts")
def test_lower_bool_casts(case: golden.Case, update: bool) -> None:
    golden.check(case, LowerBoolCastsPass(get_target(case.options["target"])), update=update)


def test_a_conversion_that_the_target_has_stays() -> None:
    a5 = get_target("a5")
    assert a5.casts is not None
    mine = dataclasses.replace(a5, casts=(*a5.casts, NativeCast(FLOAT32, BOOL)))
    text = """<ir_version: 10, opset_import: ["" : 21]>
    agraph (float[2] x) => (bool[2] y) { y = Cast <to = 9> (x) }"""
    assert not LowerBoolCastsPass(mine)(ir.from_onnx_text(text)).modified
    assert LowerBoolCastsPass(a5)(ir.from_onnx_text(text)).modified


@pytest.mark.parametrize("declared", [True, False])
def test_types_are_declared_where_the_model_declares_them(declared: bool) -> None:
    info = "<float[2] a, bool[2] b>" if declared else ""
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[2] x) => (float[2] y) {info} {{
            a = Neg (x) b = Cast <to = 9> (a) y = Where (b, x, x) }}"""
    )
    assert LowerBoolCastsPass(get_target("a5"))(model).modified
    (equal,) = (node for node in model.graph if node.op_type == "Equal")
    values = [value for value in (*equal.inputs, *equal.outputs) if value is not None]
    assert [value.type is not None for value in values] == [declared] * 3
