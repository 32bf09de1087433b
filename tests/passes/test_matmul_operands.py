import dataclasses

import onnx_ir as ir
import pytest

from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32, Format
from onnxcast.passes import MatmulOperandsPass
from onnxcast.planning import Reason
from onnxcast.policy import make_policy
from onnxcast.targets import Target
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


@pytest.mark.parametrize(
    "answer",
    [(FLOAT16, FLOAT32), (FLOAT32, FLOAT16), (FLOAT16, BFLOAT16), (FLOAT32, FLOAT32)],
    ids=lambda pair: f"stationary {pair[0]}, moving {pair[1]}",
)
def test_delegation_operands_that_cannot_share_the_type_stay_wide(
    answer: tuple[Format, Format],
) -> None:
    model = matmul()
    before = golden.text_of(model)
    narrowing = narrow_to_float16(asked(answer))
    assert not narrowing(model).modified
    assert golden.text_of(model) == before
    assert narrowing.plan is not None
    (decision,) = narrowing.plan.decisions.values()
    assert decision.reason is Reason.TARGET_OPERANDS
    assert decision.detail == f"{answer[0]} and {answer[1]}"


def test_delegation_the_target_may_answer_another_type_than_was_wanted() -> None:
    model = matmul()
    narrowing = narrow_to_float16(asked((BFLOAT16, BFLOAT16)))
    assert narrowing(model).modified
    assert "<to: int = 16>" in golden.text_of(model)
