from collections.abc import Callable, Iterable

import numpy as np
import onnx
import onnx_ir as ir
import onnx_ir.passes.common as common_passes
import onnxscript.optimizer
import pytest

import onnxcast
from onnxcast import formats, passes
from onnxcast.graph.types import ElementTypes
from onnxcast.pipeline import build_pipeline
from onnxcast.policy import Policy, make_policy
from onnxcast.targets import GENERIC, get_target
from tests import golden

NARROWING = ["all-fp16", "all-bf16", "matmult-fp16", "matmult-bf16"]
TOKENS = [*NARROWING, "none"]

TEXT = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
agraph (float[N,4] x, bool flag, int64[2] ids) => (float[N,4] y, float[N,4] z, float[2,4] picked)
   <float[4,4] w = {1, -2, 0.5, 0.1, 0, 1, 2, 3, -1, 0.25, 1, 0.7, 2, 1, 0.3, -0.6},
    float[4] bias = {0.1, 0.2, 0.3, 0.4}, float[4,4] tall = {1, 100000, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1}, float[3,4] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
{
   half = Constant <value_float = 0.5> ()
   mm = MatMul (x, w)
   shifted = Add (mm, bias)
   scaled = Mul (shifted, half)
   wide = Cast <to = 11> (scaled)
   like = CastLike (wide, x)
   y = If (flag) <
      then_branch = then () => (float[N,4] t) {
         t = MatMul (like, tall)
      },
      else_branch = other () => (float[N,4] e) <float[4,4] u = {1, 0, 0, 0, 0, 1, 0, 0,
         0, 0, 1, 0, 0, 0, 0, 1}> {
         half_u = Cast <to = 10> (u)
         same_u = Cast <to = 1> (half_u)
         e = MatMul (like, same_u)
      }
   >
   axes = Constant <value_ints = [1]> ()
   mean = ReduceMean (like, axes)
   centred = Sub (like, mean)
   called = local.act (centred)
   z = Softmax (called)
   picked = Gather (table, ids)
   dead = Cast <to = 7> (scaled)
}
<domain: "local", opset_import: ["" : 21]>
act (a) => (b) {
   c = Cast <to = 1> (a)
   d = Cast <to = 11> (c)
   e = Cast <to = 1> (d)
   b = Relu (e)
}
"""

FEEDS = {
    "x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4),
    "flag": np.array(False),
    "ids": np.array([2, 0]),
}


def proto() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT)


def policy_of(token: str, keep_ops: Iterable[str] = ()) -> Policy:
    return make_policy(fp32_cast=token, keep_ops=keep_ops)


def piped(model: ir.Model, policy: Policy) -> ir.passes.PassResult:
    return ir.passes.Sequential(*build_pipeline(policy, GENERIC))(model)


def bytes_of(model: ir.Model) -> bytes:
    found: bytes = ir.to_proto(model).SerializeToString(deterministic=True)
    return found


def error(model: onnx.ModelProto) -> float:
    """Largest difference of an output, relative to its largest magnitude."""
    before, after = golden.run(proto(), FEEDS), golden.run(model, FEEDS)
    return max(
        float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(before, after, strict=True)
    )


@pytest.mark.parametrize("token", TOKENS)
def test_the_result_is_valid_and_keeps_inputs_and_outputs(token: str) -> None:
    model = ir.from_proto(proto())
    assert piped(model, policy_of(token)).modified
    result, source = ir.to_proto(model), proto()
    onnx.checker.check_model(result, full_check=True)
    assert list(result.graph.input) == list(source.graph.input)
    assert list(result.graph.output) == list(source.graph.output)


@pytest.mark.parametrize(("token", "largest"), [("all-fp16", 5e-3), ("matmult-fp16", 5e-3)])
def test_a_narrow_model_is_near_the_source(token: str, largest: float) -> None:
    model = ir.from_proto(proto())
    piped(model, policy_of(token))
    assert 0 < error(ir.to_proto(model)) < largest


@pytest.mark.parametrize("token", TOKENS)
def test_a_second_run_gives_the_same_bytes(token: str) -> None:
    model = ir.from_proto(proto())
    first = bytes_of(piped(model, policy_of(token)).model)
    again = piped(ir.from_proto(onnx.ModelProto.FromString(first)), policy_of(token))
    assert bytes_of(again.model) == first
    assert not again.modified


@pytest.mark.parametrize("token", TOKENS)
def test_the_same_model_gives_the_same_bytes(token: str) -> None:
    once, twice = (
        bytes_of(piped(ir.from_proto(proto()), policy_of(token)).model) for _ in range(2)
    )
    assert once == twice


@pytest.mark.parametrize("token", NARROWING)
def test_with_every_op_kept_the_outputs_are_the_same_bits(token: str) -> None:
    model = ir.from_proto(proto())
    piped(model, policy_of(token, keep_ops={"*"}))
    assert error(ir.to_proto(model)) == 0.0


class OnnxscriptPass(ir.passes.InPlacePass):
    """onnxscript's optimizer: folds constants, rewrites, inlines, drops what is dead."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        onnxscript.optimizer.optimize_ir(model)
        return ir.passes.PassResult(model, True)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "neighbours",
    [
        lambda: [OnnxscriptPass()],
        lambda: [common_passes.InlinePass(), common_passes.CommonSubexpressionEliminationPass()],
        lambda: [
            common_passes.LiftConstantsToInitializersPass(),
            common_passes.ShapeInferencePass(),
        ],
    ],
    ids=["onnxscript's optimizer", "inline and share", "lift constants and infer shapes"],
)
def test_the_passes_run_next_to_those_of_onnx_ir_and_onnxscript(
    neighbours: Callable[[], list[ir.passes.PassBase]], token: str
) -> None:
    model = ir.from_proto(proto())
    ours = build_pipeline(policy_of(token), GENERIC)
    sequence = ir.passes.Sequential(*neighbours(), *ours, *neighbours())
    result = ir.to_proto(sequence(model).model)
    onnx.checker.check_model(result, full_check=True)
    if "bf16" not in token:  # onnxruntime's CPU has no bfloat16 kernels
        assert error(result) < 5e-3


MIXED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,4] x, int32[2,4] n, bool[2,4] b) => (float[2,4] y, bool[2,4] t)
<float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}> {
    f = Cast <to = 1> (n) h = MatMul (f, w) d = Cast <to = 10> (n) u = Cast <to = 1> (d)
    v = Cast <to = 16> (d) k = Cast <to = 1> (v) m = Cast <to = 1> (b) s = Add (h, u)
    r = Mul (s, m) q = Add (r, k) y = Add (q, x) t = Cast <to = 9> (n)
}"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("token", ["none", "all", "all-fp16", "matmult", "matmult-fp16", "inputs"])
def test_a_result_has_casts_that_the_target_has_and_is_settled(target: str, token: str) -> None:
    chosen = get_target(target)
    result = onnxcast.optimize(onnx.parser.parse_model(MIXED), fp32_cast=token, target=target)
    made = result.to_proto()
    types = {
        info.name: info.type.tensor_type.elem_type
        for info in (
            *onnx.shape_inference.infer_shapes(made).graph.value_info,
            *made.graph.input,
            *made.graph.output,
        )
    }
    types |= {each.name: each.data_type for each in made.graph.initializer}
    casts = [node for node in made.graph.node if node.op_type == "Cast"]
    for node in casts:
        (to,) = (each.i for each in node.attribute if each.name == "to")
        pair = formats.of(ir.DataType(types[node.input[0]])), formats.of(ir.DataType(to))
        assert chosen.native_cast(*pair) is not None, (node.name, pair)
    assert result.report.to_dict()["casts"]["hops"] == len(casts) > 0
    again = onnxcast.optimize(made, fp32_cast=token, target=target)
    assert again.to_proto() == made


TRIPS = """<ir_version: 10, opset_import: ["" : 21]>
g (int32[4] n, float[4] x) => (float[4] y, float[4] z)
<float[4,4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}> {
    f = Cast <to = 1> (n) y = Mul (f, x)
    d = Cast <to = 10> (x) u = Cast <to = 1> (d) b = Cast <to = 16> (u) v = Cast <to = 1> (b)
    z = MatMul (v, w)
}"""


def in_order(order: str, policy: Policy, target: str) -> ir.Model:
    """`TRIPS` after onnxscript's optimizer (o) and our passes (p) in that order."""
    model = ir.from_proto(onnx.parser.parse_model(TRIPS))
    steps: dict[str, Callable[[], Iterable[ir.passes.PassBase]]] = {
        "o": lambda: [OnnxscriptPass()],
        "p": lambda: build_pipeline(policy, target),
    }
    return ir.passes.Sequential(*(each for step in order for each in steps[step]()))(model).model


def casts_of(model: ir.Model) -> set[tuple[str, str]]:
    """From what to what the model casts, in the names of ONNX."""
    types = ElementTypes(model)

    def name(value: ir.Value | None) -> str:
        type_ = None if value is None else types.of(value)
        return "" if type_ is None else type_.dtype.name

    casts = (node for node in model.graph if node.op_type == "Cast")
    return {(name(node.inputs[0]), name(node.outputs[0])) for node in casts}


def test_the_same_passes_convert_one_model_after_the_other() -> None:
    passes_ = ir.passes.Sequential(*build_pipeline(make_policy(fp32_cast="all-fp16")))
    results = [ir.to_proto(passes_(ir.from_onnx_text(TEXT)).model) for _ in range(3)]
    assert results[0] == results[1] == results[2]
    assert any(node.op_type == "Cast" for node in results[0].graph.node)


def test_onnxscripts_optimizer_before_keeps_round_trips_to_narrower_floats() -> None:
    result = in_order("op", policy_of("none"), "generic")
    assert ("FLOAT", "FLOAT16") in casts_of(result)
    feeds = {"n": np.arange(4, dtype=np.int32), "x": np.array([0.1, 1 / 3, 1e-7, 7e4], np.float32)}
    before = golden.run(onnx.parser.parse_model(TRIPS), feeds)
    for one, other in zip(before, golden.run(ir.to_proto(result), feeds), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", ["generic", "a2a3", "a5"])
@pytest.mark.parametrize("token", NARROWING)
def test_onnxscripts_optimizer_before_is_proved_and_settled(token: str, target: str) -> None:
    result = in_order("op", policy_of(token), target)
    assert onnxcast.verify(onnx.parser.parse_model(TRIPS), result).ok
    first = bytes_of(result)
    again = ir.passes.Sequential(*build_pipeline(policy_of(token), target))(result)
    assert (again.modified, bytes_of(again.model)) == (False, first)


def test_onnxscripts_optimizer_behind_makes_casts_that_round_once_and_the_target_lacks() -> None:
    lacks = ("INT32", "FLOAT16")
    assert not get_target("a5").is_native(formats.INT32, formats.FLOAT16)
    assert lacks not in casts_of(in_order("op", policy_of("all-fp16"), "a5"))
    assert lacks in casts_of(in_order("opo", policy_of("all-fp16"), "a5"))
    assert lacks not in casts_of(in_order("opop", policy_of("all-fp16"), "a5"))


def test_onnxscripts_optimizer_behind_stores_narrow_constants_wide() -> None:
    def stored(order: str) -> set[ir.DataType | None]:
        policy = make_policy(fp32_cast="matmult-fp16", matmul_output="wide")
        return {
            each.dtype for each in in_order(order, policy, "generic").graph.initializers.values()
        }

    assert stored("op") == {ir.DataType.FLOAT16}
    assert stored("opo") == {ir.DataType.FLOAT}


def test_every_pass_runs_next_to_onnxscripts_optimizer() -> None:
    policies = [
        make_policy(illegal_casts="keep", **each)
        for each in (
            {"fp32_cast": "all-fp16", "io_types": "narrow", "clamp_masks": True},
            {"fp32_cast": "matmult-fp16", "functions": "inline"},
            {"fp32_cast": "inputs-fp16"},
        )
    ]
    ours = {type(each): each for policy in policies for each in build_pipeline(policy, "a5")}
    assert {each.__name__ for each in ours} - {"RemoveUnusedFunctionsPass"} == set(passes.__all__)
    for each in ours.values():
        model = ir.from_proto(proto())
        ir.passes.Sequential(OnnxscriptPass(), each, OnnxscriptPass())(model)
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
