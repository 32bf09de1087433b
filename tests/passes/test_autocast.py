from onnxcast.passes import AutocastPass
from onnxcast.policy import make_policy
from tests import golden

# Relative to the largest magnitude of an output: a few roundings of 2**-11 and 2**-8.
TOLERANCES = {"float16": 5e-3, "bfloat16": 4e-2}


@golden.cases("autocast")
def test_autocast(case: golden.Case, update: bool) -> None:
    functions = case.options.get("functions", "specialise")
    policy = make_policy(fp32_cast=case.options["fp32_cast"], functions=functions)
    tolerance = TOLERANCES[str(policy.narrowest)]
    golden.check(case, AutocastPass(policy=policy), update=update, tolerance=tolerance)
