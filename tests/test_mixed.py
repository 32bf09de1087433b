"""``--dtype mixed``: float16, and bfloat16 for what leaves its range; both ways over float32."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxcast
from onnxcast.graph.edit import cast_target
from onnxcast.graph.types import ElementTypes
from onnxcast.planning import Reason, fall_back, falls_back, forget_pins, make_plan, pin
from onnxcast.policy import make_policy
from onnxcast.repair import MARGIN
from onnxcast.targets import GENERIC
from onnxcast.verification.session import Worker
from tests.networks import network, sample
from tests.planning.plans import decided, formats_of, load, plan_of

CASTS = {"FLOAT BFLOAT16": 3, "FLOAT FLOAT16": 2, "FLOAT16 FLOAT": 2, "BFLOAT16 FLOAT": 1}
PLANTED = ["planted_up_1", "planted_down_1"]


@pytest.fixture(scope="module", autouse=True)
def one_child() -> Iterator[None]:
    """One process that runs onnxruntime for all tests here: starting it takes the most time."""
    with Worker() as worker, pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxcast.api.Worker", lambda: contextlib.nullcontext(worker))
        yield


def mixed(source: object, **options: Any) -> onnxcast.Result:
    result = onnxcast.optimize(source, **{"dtype": "mixed", **options})
    assert result.verified
    onnx.checker.check_model(result.to_proto(), full_check=True)
    return result


def formats_in(result: onnxcast.Result) -> dict[str, str]:
    return {row["node"]: row["format"] for row in result.report.to_dict()["groups"]}


def fallbacks(result: onnxcast.Result) -> list[str]:
    return [row["node"] for row in result.report.to_dict()["fallbacks"]]


def casts(result: onnxcast.Result) -> Counter[str]:
    """What the Casts of a result lead from and to."""
    types = ElementTypes(result.model)
    pairs = (
        (types.dtype(node.inputs[0]), cast_target(node))
        for node in result.model.graph
        if cast_target(node) is not None
    )
    return Counter(f"{source and source.name} {to and to.name}" for source, to in pairs)


def bytes_of(result: onnxcast.Result) -> bytes:
    return bytes(result.to_proto().SerializeToString(deterministic=True))


def scaled() -> onnx.ModelProto:
    """A chain of products that an input takes far up, and another down again."""
    model: onnx.ModelProto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[8,8] x, float[8,8] up, float[8,8] down) => (float[8,8] y) {
            [first] a = MatMul (x, x)
            [act] b = Tanh (a)
            [raise] c = MatMul (b, up)
            [turn] t = Transpose (c)
            [shape] s = Shape (t)
            [lower] d = MatMul (t, down)
            [fit] e = Reshape (d, s)
            [last] y = MatMul (e, x)
        }"""
    )
    return model


def feeds(magnitude: float) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    x, up, down = (random.normal(size=(8, 8)).astype(np.float32) for _ in range(3))
    return {
        "x": x,
        "up": (up * magnitude).astype(np.float32),
        "down": (down / magnitude).astype(np.float32),
    }


@pytest.mark.parametrize("target", ["generic", "ascend950", "ascend910b"])
@pytest.mark.parametrize("magnitude", [1e5, 1e12, 1e30])
def test_what_leaves_float16_gets_bfloat16_and_the_rest_float16(
    magnitude: float, target: str
) -> None:
    inputs = feeds(magnitude)
    result = mixed(scaled(), inputs=inputs, target=target)
    found = formats_in(result)
    assert {found[name] for name in ("raise", "turn", "lower")} == {"bfloat16"}
    assert {found[name] for name in ("first", "act", "fit", "last")} == {"float16"}
    assert fallbacks(result) == ["raise", "lower"]
    assert result.report.to_dict()["pins"] == []
    assert casts(result) == CASTS
    again = mixed(result.to_proto(), inputs=inputs, target=target)
    assert (bytes_of(again), again.modified) == (bytes_of(result), False)


def test_what_leaves_bfloat16_too_is_pinned() -> None:
    inputs = feeds(1e37)
    inputs["up"] *= np.float32(2.5e38 / np.abs(inputs["up"]).max())  # another sample may go beyond
    inputs["down"] /= np.float32(10)
    result = mixed(scaled(), inputs=inputs)
    pins = {row["node"]: row["figure"] for row in result.report.to_dict()["pins"]}
    assert pins["raise"].startswith(("up reaches 2.5e+38", "c reaches"))
    assert formats_in(result)["raise"] == "float32"
    assert "raise" not in fallbacks(result)


def test_a_planted_overflow_falls_back_and_a_second_run_changes_nothing() -> None:
    source = network(3, [(1, "overflow")])
    result = mixed(source, inputs=sample())
    narrow = formats_in(result)
    assert [name for name, each in narrow.items() if each == "bfloat16"] == PLANTED
    assert {each for name, each in narrow.items() if name not in PLANTED} == {"float16"}
    assert fallbacks(result) == PLANTED
    again = mixed(result.to_proto(), inputs=sample())
    assert (bytes_of(again), again.modified) == (bytes_of(result), False)


@pytest.mark.parametrize("scope", ["all", "matmult"])
def test_where_all_fits_it_is_float16(scope: str) -> None:
    source = network(3, [])
    result = mixed(source, scope=scope, inputs=sample()).to_proto()
    plain = onnxcast.optimize(source, scope=scope, dtype="fp16", inputs=sample()).to_proto()
    for model in (result, plain):
        props = {each.key: each.value for each in model.metadata_props}
        assert props.pop("onnxcast.token") == f"{scope}-{'mixed' if model is result else 'fp16'}"
        del model.metadata_props[:]
    assert result.SerializeToString(deterministic=True) == plain.SerializeToString(
        deterministic=True
    )


def test_a_report_repeats_the_fallbacks() -> None:
    source = network(3, [(1, "overflow")])
    result = mixed(source, inputs=sample())
    again = mixed(source, inputs=sample(), dtype=None, plan=result.report.to_dict())
    assert bytes_of(again) == bytes_of(result)


def test_an_error_budget_searches_beside_fallbacks() -> None:
    source = network(3, [(1, "overflow")])
    result = mixed(source, inputs=sample(), max_error=0.02)
    assert fallbacks(result) == PLANTED
    assert mixed(source, inputs=sample(), repair=False).verified


def test_a_node_is_marked_with_what_it_reaches_until_that_is_forgotten() -> None:
    model = load("g (float[2,2] x) => (float[2,2] y) { y = MatMul (x, x) }")
    node = model.graph[0]
    assert fall_back(node, "y reaches 1e+06")
    assert not fall_back(node, "y reaches 2e+06")
    assert dict(node.metadata_props) == {"onnxcast.fallback": "y reaches 1e+06"}
    for token, format_ in (("all-mixed", "bfloat16"), ("all-fp16", "float16")):
        plan = make_plan(model, make_policy(fp32_cast=token), GENERIC)
        assert decided(plan)["y"][0] == format_
        assert plan.fallbacks == ({node: "y reaches 1e+06"} if token == "all-mixed" else {})
    pin(node, "own error 0.5")
    plan = make_plan(model, make_policy(fp32_cast="all-mixed"), GENERIC)
    assert decided(plan)["y"] == ("float32", Reason.PINNED)
    assert forget_pins(model) == 2
    assert not falls_back(node)


def test_constants_that_only_bfloat16_holds_make_a_node_fall_back() -> None:
    text = """g (float[4,4] x) => (float[4,4] y) <float[4,4] w = {
        1e6,1,1,1, 1,1,1,1, 1,1,1,1, 1,1,1,1}, float[4,4] v = {
        1e-9,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0}> {
        a = MatMul (x, x) b = MatMul (a, w) t = Transpose (b) c = MatMul (t, v) y = MatMul (c, x)
    }"""
    assert formats_of(text, "all-mixed") == {
        "a": "float16",
        "b": "bfloat16",
        "t": "bfloat16",
        "c": "bfloat16",
        "y": "bfloat16",  # may be as large
    }


def test_what_no_bfloat16_holds_stays_wide() -> None:
    text = """g (float[4,4] x) => (float[4,4] y) <float k = {-3.4028235e38}> {
        a = MatMul (x, x) b = Max (a, k) y = MatMul (b, x) }"""
    plan = plan_of(text, "all-mixed")
    assert decided(plan)["b"][1] is not Reason.FALLBACK


IN_A_BRANCH = """<ir_version: 8, opset_import: ["": 17]>
g (float[8,8] x, float[1] k) => (float[8,8] y) {
    f = Constant <value = bool {1}> ()
    m = MatMul (x, x)
    i = If (f) <then_branch = t () => (float[8,8] p) {
                    [up] u = Mul (m, k)
                    [square] v = MatMul (u, u)
                    [down] o = Div (v, k)
                    [further] p = Div (o, k)
                },
                else_branch = e () => (float[8,8] q) { q = Relu (m) }>
    y = MatMul (i, x)
}"""


@pytest.mark.parametrize("target", ["generic", "ascend910b"])
def test_nodes_of_a_body_fall_back(target: str) -> None:
    inputs = {"x": feeds(1)["x"], "k": np.array([1e7], np.float32)}
    result = mixed(onnx.parser.parse_model(IN_A_BRANCH), inputs=inputs, target=target)
    assert fallbacks(result) == ["up", "square", "down", "further"]
    assert {formats_in(result)[name] for name in fallbacks(result)} == {"bfloat16"}
    again = mixed(result.to_proto(), inputs=inputs, target=target)
    assert (bytes_of(again), again.modified) == (bytes_of(result), False)


def test_an_op_without_bfloat16_at_the_opset_is_given_rounded_operands() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1,1,8,8] x, float[1] k) => (float[1,1,8,8] y) <float[1,1,1,1] w = {0.5}> {
        [up] u = Mul (x, k) [conv] c = Conv (u, w) [down] y = Div (c, k)
    }"""
    inputs = {"x": np.ones((1, 1, 8, 8), np.float32), "k": np.array([1e7], np.float32)}
    result = mixed(onnx.parser.parse_model(text), inputs=inputs)
    row = next(row for row in result.report.to_dict()["groups"] if row["node"] == "conv")
    assert (row["format"], row["form"]) == ("bfloat16", "STORAGE")
    again = mixed(result.to_proto(), inputs=inputs)
    assert (bytes_of(again), again.modified) == (bytes_of(result), False)


def test_a_result_with_fallbacks_leaves_room_for_other_samples() -> None:
    source = network(3, [(1, "overflow")])
    used_up = worst_of(mixed(source, inputs=sample()))
    result = mixed(source, inputs=sample(), tolerance=used_up * 1.25)
    assert worst_of(result) <= MARGIN * used_up * 1.25
    assert result.report.to_dict()["pins"]
    again = mixed(result.to_proto(), inputs=sample(), tolerance=used_up * 1.25)
    assert (bytes_of(again), again.modified) == (bytes_of(result), False)


def worst_of(result: onnxcast.Result) -> float:
    proof = result.report.proof
    assert proof is not None
    [error] = proof.twin_errors
    return max(error.max_error, error.rms_error)
