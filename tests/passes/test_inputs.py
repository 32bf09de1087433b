import pytest

from onnxcast.passes import InputsPass
from onnxcast.policy import make_policy
from tests import golden

TOLERANCES = {"float16": 5e-3, "bfloat16": 4e-2, "float8e4m3fn": 2.0**-4}


@golden.cases("inputs")
def test_inputs(case: golden.Case, update: bool) -> None:
    policy = make_policy(fp32_cast=case.options["fp32_cast"])
    tolerance = TOLERANCES[str(policy.format)]
    golden.check(case, InputsPass(policy=policy), update=update, tolerance=tolerance)


@pytest.mark.parametrize("token", ["all", "none"])
def test_only_its_own_scope_is_taken(token: str) -> None:
    with pytest.raises(AssertionError):
        InputsPass(policy=make_policy(fp32_cast=token))
