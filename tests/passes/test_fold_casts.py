import onnx_ir as ir
import pytest

from onnxcast.diagnostics import Code
from onnxcast.passes import FoldCastsPass
from onnxcast.targets import get_target
from tests import golden


@golden.cases("fold_casts")
def test_fold_casts(case: golden.Case, update: bool) -> None:
    golden.check(case, FoldCastsPass(), update=update)


def test_each_fold_is_a_finding_that_names_the_pair() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> agraph (float16[2] x) => (bfloat16[2] y) {'
        " a = Cast <to = 1> (x) b = Cast <to = 1> (a) y = Cast <to = 16> (b) }"
    )
    fold = FoldCastsPass()
    fold(model)
    assert [(finding.code, finding.message) for finding in fold.findings] == [
        (Code.CAST_IDENTITY_DROPPED, "float32 to itself: b now comes from a"),
        (Code.CAST_FOLDED, "float16 to float32 to bfloat16: y now comes from x"),
    ]
    fold(model)
    assert fold.findings == []


@pytest.mark.parametrize(
    ("chain", "folded"),
    [
        ("float16 float32 bfloat16", False),  # a5 has no such conversion, so none is made
        ("float16 float32 float16", True),  # none is left
        ("uint8 float32 float16", True),
        ("bool int64 float32", True),  # no target converts bool: it becomes a choice
        ("int8 int32 float32", False),
    ],
)
def test_no_cast_is_made_that_the_target_lacks(chain: str, folded: bool) -> None:
    source, middle, target = chain.split()
    numbers = {"float16": 10, "float32": 1, "bfloat16": 16, "int64": 7, "int32": 6}
    names = {"float32": "float"}
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    agraph ({source}[2] x) => ({names.get(target, target)}[2] y) {{
        a = Cast <to = {numbers[middle]}> (x) y = Cast <to = {numbers[target]}> (a)
    }}"""
    model = ir.from_onnx_text(text)
    assert FoldCastsPass(get_target("a5").is_native)(model).modified == folded
    assert FoldCastsPass()(ir.from_onnx_text(text)).modified, "without a target all of them fold"
