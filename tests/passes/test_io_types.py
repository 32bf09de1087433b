import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.passes import IoTypesPass
from onnxcast.policy import make_policy
from tests import golden


@golden.cases("io_types")
def test_io_types(case: golden.Case, update: bool) -> None:
    policy = make_policy(fp32_cast="all-fp16", io_types=case.options["io_types"])
    golden.check(case, IoTypesPass(policy.io_types), update=update, tolerance=0)


MODEL = """<ir_version: 10, opset_import: ["" : 21]>
agraph (float[4] x, int64[4] i) => (float[4] logits) { logits = Relu (x) }"""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("logit=fp16", "no graph input or output 'logit'; nearest: logits"),
        ("i=fp16", "'i' is int64, and only float32"),
    ],
)
def test_a_name_in_vain_is_an_input_error(asked: str, said: str) -> None:
    model = ir.from_onnx_text(MODEL)
    with pytest.raises(InputError, match=said):
        IoTypesPass(make_policy(fp32_cast="all-fp16", io_types=asked).io_types)(model)


def test_a_type_that_is_there_already_is_no_fault() -> None:
    model = ir.from_onnx_text(MODEL)
    narrowing = IoTypesPass(make_policy(fp32_cast="none", io_types="x=bf16").io_types)
    assert narrowing(model).modified
    assert not narrowing(model).modified
