"""Where Casts stand changes no bit of any output: naive and final placement have equal twins."""

import hypothesis
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.policy import make_policy
from onnxcast.verification.comparison import bit_equal
from tests import golden
from tests.placements import fed, twins
from tests.strategies import models

# Values that rounding, data movement and comparisons may treat in a way of their own.
SPECIAL = (np.inf, -np.inf, np.nan, -0.0, 1e-7, 7e4, 2049.0, 0.1)


def feeds(proto: onnx.ModelProto, flag: bool) -> dict[str, golden.Array]:
    random = np.random.default_rng(0)
    arrays: dict[str, golden.Array] = {"flag": np.array(flag)}
    for name in ("x", "z"):
        array = random.normal(scale=4, size=16).astype(np.float32)
        array[random.permutation(16)[:8]] = SPECIAL
        arrays[name] = array.reshape(4, 4)
    return {value.name: arrays[value.name] for value in proto.graph.input}


@pytest.mark.parametrize("token", ["all-fp16", "all", "matmult-fp16"])
@hypothesis.settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(proto=models(least=10, most=25), flag=hypothesis.strategies.booleans())
def test_placement_folding_and_shrinking_change_no_bit(
    token: str, proto: onnx.ModelProto, flag: bool
) -> None:
    results = []
    for twin in twins(ir.from_proto(proto), make_policy(fp32_cast=token)):
        (sample,) = fed(twin, [feeds(proto, flag)])
        arrays = {name: np.asarray(value) for name, value in sample.items()}
        results.append(golden.run(ir.to_proto(twin), arrays))
    wanted, found = results
    for output, before, after in zip(proto.graph.output, wanted, found, strict=True):
        assert bit_equal(before, after), output.name
