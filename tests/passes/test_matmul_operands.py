import dataclasses

import onnx
import onnx_ir as ir
import pytest

from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32, HIFLOAT8, Format
from onnxcast.passes import MatmulOperandsPass
from onnxcast.planning import Form, Reason
from onnxcast.policy import make_policy
from onnxcast.targets import Target, get_target
from tests import golden

# Relative to the largest magnitude of an output: a few roundings of 2**-11 and 2**-8.
TOLERANCES = {"float16": 5e-3, "bfloat16": 4e-2}


@golden.cases("matmul_operands")
def test_matmul_operands(case: golden.Case, update: bool) -> None:
    functions = case.options.get("functions", "specialise")
    policy = make_policy(fp32_cast=case.options["fp32_cast"], functions=functions)
    tolerance = TOLERANCES[str(policy.format)]
    golden.check(case, MatmulOperandsPass(policy=policy), update=update, tolerance=tolerance)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked(Target):
    """A target that notes what it is asked, and whose answer for the pair is given."""

    answer: tuple[Format, Format]
    questions: list[tuple[Format, Format]] = dataclasses.field(default_factory=list)

    def matmul_operand_type(self, format_: Format, wanted: Format) -> Format:
        self.questions.append((format_, wanted))
        return super().matmul_operand_type(format_, wanted)

    def matmul_operand_pair(self, first: Format, second: Format) -> tuple[Format, Format]:
        self.questions.append((first, second))
        return self.answer


def asked(answer: tuple[Format, Format]) -> Asked:
    return Asked(name="asked", preferred=FLOAT16, answer=answer)


def matmul() -> ir.Model:
    return ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> agraph (float[2,2] x, float[2,2] w)'
        " => (float[2,2] y) { y = MatMul (x, w) }"
    )


def narrow_to_float16(target: Target) -> MatmulOperandsPass:
    return MatmulOperandsPass(policy=make_policy(fp32_cast="matmult-fp16"), target=target)


def test_delegation_the_target_is_asked_for_each_operand_and_for_the_pair() -> None:
    target = asked((FLOAT16, FLOAT16))
    assert narrow_to_float16(target)(matmul()).modified
    assert target.questions == [(FLOAT32, FLOAT16), (FLOAT32, FLOAT16), (FLOAT16, FLOAT16)]


def test_delegation_the_target_may_want_float32() -> None:
    model = matmul()
    before = golden.text_of(model)
    narrowing = narrow_to_float16(asked((FLOAT32, FLOAT32)))
    assert not narrowing(model).modified
    assert golden.text_of(model) == before
    assert narrowing.plan is not None
    (decision,) = narrowing.plan.decisions.values()
    assert decision.reason is Reason.TARGET_OPERANDS
    assert decision.detail == "float32 and float32"


@pytest.mark.parametrize(
    "answer",
    [(FLOAT16, FLOAT32), (FLOAT32, FLOAT16), (FLOAT16, BFLOAT16), (BFLOAT16, FLOAT16)],
    ids=lambda pair: f"stationary {pair[0]}, moving {pair[1]}",
)
def test_delegation_stationary_and_moving_operand_may_get_different_types(
    answer: tuple[Format, Format],
) -> None:
    model = matmul()
    narrowing = narrow_to_float16(asked(answer))
    assert narrowing(model).modified
    (product,) = [node for node in model.graph if node.op_type == "MatMul"]
    for operand, wanted in zip(product.inputs, answer, strict=True):
        assert operand is not None
        rounded = operand.producer()
        if wanted is FLOAT32:
            assert rounded is None
            continue
        assert rounded is not None
        (source,) = rounded.inputs
        assert source is not None
        assert (operand.dtype, source.dtype) == (FLOAT32.dtype, wanted.dtype)
    assert product.outputs[0].dtype == FLOAT32.dtype
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert not narrow_to_float16(asked(answer))(model).modified


def test_delegation_a_target_that_takes_no_such_operand_leaves_the_matmul_wide() -> None:
    model = matmul()
    narrowing = narrow_to_float16(get_target("trn1"))
    refusing = dataclasses.replace(get_target("trn1"), operands=get_target("trn1").operands[1:2])
    assert narrowing(model).modified
    narrowing = narrow_to_float16(refusing)
    assert not narrowing(matmul()).modified
    assert narrowing.plan is not None
    (decision,) = narrowing.plan.decisions.values()
    assert decision.reason is Reason.TARGET_OPERANDS
    assert "takes no float32 operand where float16 is wanted" in decision.detail


def test_delegation_the_target_may_answer_another_type_than_was_wanted() -> None:
    model = matmul()
    narrowing = narrow_to_float16(asked((BFLOAT16, BFLOAT16)))
    assert narrowing(model).modified
    assert "<to: int = 16>" in golden.text_of(model)


ATTENTION = """<ir_version: 11, opset_import: ["" : 23]>
agraph (float[1,1,2,4] q, float[1,1,2,4] k, float[1,1,2,4] v) => (float[1,1,2,4] y) {
    y = Attention (q, k, v)
}"""


def test_delegation_keys_and_values_are_moving_operands() -> None:
    model = ir.from_onnx_text(ATTENTION)
    narrowing = narrow_to_float16(asked((FLOAT16, BFLOAT16)))
    assert narrowing(model).modified
    assert narrowing.plan is not None
    found = {
        index: decision.read_in(index)
        for decision in narrowing.plan.decisions.values()
        for index in decision.reads
    }
    assert found == {0: FLOAT16, 1: BFLOAT16, 2: BFLOAT16}


@pytest.mark.parametrize("token", ["matmult-fp16", "matmult-fp32r"])
def test_delegation_an_answer_that_cannot_be_written_leaves_the_matmul_wide(token: str) -> None:
    answer = FLOAT16 if token.endswith("r") else HIFLOAT8
    policy = make_policy(fp32_cast=token)
    narrowing = MatmulOperandsPass(policy=policy, target=asked((answer, answer)))
    assert not narrowing(matmul()).modified
    assert narrowing.plan is not None
    (decision,) = narrowing.plan.decisions.values()
    assert decision.reason is Reason.TARGET_OPERANDS


@pytest.mark.parametrize(("answer", "form"), [(FLOAT16, Form.NATIVE), (BFLOAT16, Form.STORAGE)])
def test_delegation_the_form_is_that_of_the_answer(answer: Format, form: Form) -> None:
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["" : 13]>
        agraph (float[1,1,4,4] x, float[1,1,2,2] w) => (float[1,1,3,3] y) { y = Conv (x, w) }"""
    )
    other = "matmult-bf16" if answer is FLOAT16 else "matmult-fp16"
    policy = make_policy(fp32_cast=other)
    narrowing = MatmulOperandsPass(policy=policy, target=asked((answer, answer)))
    assert narrowing(model).modified
    assert narrowing.plan is not None
    (decision,) = narrowing.plan.decisions.values()
    assert (decision.form, decision.format) == (form, answer)
