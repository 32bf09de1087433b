"""What a user is told to do with a result."""

import dataclasses
import re
import shlex

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import onnxcast
from onnxcast.targets import Target, all_targets, get_target

ROUND_TRIP = """<ir_version: 10, opset_import: ["" : 21]>
g (float[3] x) => (float[3] y) { d = Cast <to = 10> (x) u = Cast <to = 1> (d) y = Neg (u) }"""


@pytest.mark.parametrize("target", all_targets(), ids=lambda each: each.name)
def test_every_target_but_the_generic_tells_what_to_do(target: Target) -> None:
    assert bool(target.advice) == (target.name != "generic")
    assert set(re.findall(r"{\w*}", target.command)) <= {"{model}", "{stem}"}
    assert ("{model}" in target.command) == bool(target.command)
    for sentence in target.advice:
        assert sentence.isprintable()
        assert not sentence.endswith(".")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("atc-ascend310p", {"--framework=5", "--model=a b.onnx", "--output=a b"}),
        ("atc-ascend910b", {"--precision_mode_v2=origin", "--soc_version=Ascend910B3"}),
        ("tensorrt", {"--onnx=a b.onnx", "--saveEngine=a b.engine", "--stronglyTyped"}),
        ("onnxruntime-cuda", {"a b.onnx"}),
    ],
)
def test_the_command_is_for_a_shell(target: str, words: set[str]) -> None:
    assert words <= set(shlex.split(get_target(target).next_command("a b.onnx")))


def test_without_a_command_there_is_none() -> None:
    assert not get_target("generic").next_command("model.onnx")


@pytest.mark.parametrize("entry", [{}, {"optimization.enable_cast_chain_elimination": "1"}])
def test_casts_that_round_stay_in_onnxruntime_but_with_what_is_advised_against(
    entry: dict[str, str],
) -> None:
    advice = " ".join(get_target("onnxruntime-cuda").advice)
    assert "leave optimization.enable_cast_chain_elimination off" in advice
    options = onnxruntime.SessionOptions()
    for key, value in entry.items():
        options.add_session_config_entry(key, value)
    model = onnx.parser.parse_model(ROUND_TRIP).SerializeToString()
    x = np.array([0.1, 70000, 1e-9], np.float32)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    with np.errstate(over="ignore"):
        rounded = -x.astype(np.float16).astype(np.float32)
    assert np.array_equal(found, rounded) == (not entry)


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("all-fp8e4", "target tensorrt (trt) has no float8e4m3fn: give another target or one of "),
        ("all-fp32r", "target tensorrt (trt) has no float32r: give another target or one of "),
    ],
)
def test_tensorrt_takes_the_formats_of_its_casts(token: str, said: str) -> None:
    with pytest.raises(onnxcast.InputError) as caught:
        onnxcast.optimize(onnx.parser.parse_model(ROUND_TRIP), fp32_cast=token, target="trt")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("target", ["tensorrt", "onnxruntime-cuda"])
@pytest.mark.parametrize("token", ["all-fp16", "all-bf16", "matmult-fp16", "matmult"])
def test_a_model_for_a_runtime_is_proved(token: str, target: str) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,2] x, int32[2,2] n) => (float[2,2] y, double[2,2] z, int32[2,2] i) {
        h = MatMul (x, x) y = Relu (h) d = Cast <to = 11> (x) z = MatMul (d, d)
        i = MatMul (n, n)
    }"""
    result = onnxcast.optimize(onnx.parser.parse_model(text), fp32_cast=token, target=target)
    assert result.verified
    assert result.report.to_dict()["command"] == get_target(target).command


def test_what_is_told_is_not_in_the_hash_of_the_tables() -> None:
    target = get_target("tensorrt")
    told = dataclasses.replace(target, command="", advice=("mind the gap",))
    assert told.digest == target.digest
    assert dataclasses.replace(target, opsets=(9, 24)).digest != target.digest
