"""Storage form: float32 ops on operands that were rounded, and what is stored narrow for them."""

import dataclasses
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxcast import formats
from onnxcast.formats import BFLOAT16, FLOAT8E4, FLOAT8E4M3FN, FLOAT16, Format
from onnxcast.graph.edit import cast_target
from onnxcast.graph.walk import main_graphs
from onnxcast.pipeline import build_pipeline
from onnxcast.planning import Decision, Form, Reason, carry_out, make_plan
from onnxcast.policy import TOKENS, make_policy
from onnxcast.targets import GENERIC, Target
from tests import golden
from tests.planning.plans import decided, load

LEGACY = dataclasses.replace(GENERIC, float8e4=FLOAT8E4)
FLOAT, FLOAT8 = ir.DataType.FLOAT, ir.DataType.FLOAT8E4M3FN


def decisions(
    text: str, token: str, *, opset: int = 21, target: Target = GENERIC, **options: Any
) -> dict[str, Decision]:
    """Decisions by the node's first result."""
    plan = make_plan(load(text, opset), make_policy(fp32_cast=token, **options), target)
    return {group.node.outputs[0].name or "": each for group, each in plan.decisions.items()}


def checked(model: ir.Model) -> ir.Model:
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def placed(
    text: str, token: str, *, opset: int = 21, target: Target = GENERIC, **options: Any
) -> ir.Model:
    model = load(text, opset)
    carry_out(model, make_plan(model, make_policy(fp32_cast=token, **options), target))
    return checked(model)


def piped(
    source: str | onnx.ModelProto,
    token: str,
    *,
    opset: int = 21,
    target: Target = GENERIC,
    **options: Any,
) -> ir.Model:
    model = load(source, opset) if isinstance(source, str) else ir.from_proto(source)
    for pass_ in build_pipeline(make_policy(fp32_cast=token, **options), target):
        pass_(model)
    return checked(model)


def casts(model: ir.Model) -> list[str]:
    return [
        f"{node.inputs[0].name} -> {node.outputs[0].name}"
        for graph in main_graphs(model)
        for node in graph
        if cast_target(node) is not None and node.inputs[0] is not None
    ]


def node_of(model: ir.Model, result: str) -> ir.Node:
    [found] = [
        node
        for graph in main_graphs(model)
        for node in graph
        if result in {output.name for output in node.outputs}
    ]
    return found


def operands(model: ir.Model, result: str) -> list[str | None]:
    return [None if each is None else each.name for each in node_of(model, result).inputs]


def bytes_of(model: ir.Model) -> bytes:
    found: bytes = ir.to_proto(model).SerializeToString(deterministic=True)
    return found


GEMM = """g (float[2,2] x) => (float[2,2] y)
    <float[2,2] w = {1, 2, 3, 0.3}, float[2] b = {0.1, 0.2}> { y = Gemm (x, w, b) }"""
CONV = """g (float[1,1,3,3] x) => (float[1,1,2,2] y)
    <float[1,1,2,2] w = {1, 2, 3, 0.3}, float[1] b = {0.1}> { y = Conv (x, w, b) }"""


@pytest.mark.parametrize(
    ("text", "token", "format_", "opset", "options"),
    [
        (GEMM, "all-fp8e4", FLOAT8E4M3FN, 21, {}),
        (GEMM, "matmult-fp8e4", FLOAT8E4M3FN, 21, {}),
        (GEMM, "all-fp16", FLOAT16, 21, {"matmul_output": "wide"}),
        (GEMM, "matmult-bf16", BFLOAT16, 21, {"matmul_output": "wide"}),
        (CONV, "all-bf16", BFLOAT16, 17, {}),
        (CONV, "matmult-bf16", BFLOAT16, 21, {}),
    ],
)
def test_a_product_reads_its_factors_rounded_and_its_bias_as_it_is(
    text: str, token: str, format_: Format, opset: int, options: dict[str, Any]
) -> None:
    [decision] = decisions(text, token, opset=opset, **options).values()
    assert (decision.form, decision.format, decision.reason) == (
        Form.STORAGE,
        format_,
        Reason.STORAGE,
    )
    assert decision.reads == (0, 1)
    assert not decision.gives
    model = placed(text, token, opset=opset, **options)
    assert operands(model, "y") == [f"x_{format_}_float32", f"w_{format_}_float32", "b"]
    bias = model.graph.initializers["b"].const_value
    assert bias is not None
    assert bias.dtype == FLOAT


@pytest.mark.parametrize(("opset", "later"), [(17, 22), (21, 22)])
def test_the_later_opset_that_allows_the_format_is_told(opset: int, later: int) -> None:
    [decision] = decisions(CONV, "matmult-bf16", opset=opset).values()
    assert decision.opset == later
    assert decision.detail.endswith(f", allowed from opset {later}")
    plan = make_plan(load(CONV, opset), make_policy(fp32_cast="matmult-bf16"), GENERIC)
    assert plan.held_back() == {("Conv", later): 1}


def test_where_the_opset_allows_the_format_the_product_runs_in_it() -> None:
    [decision] = decisions(CONV, "matmult-bf16", opset=22).values()
    assert (decision.form, decision.gives, decision.opset) == (Form.NATIVE, True, None)


def test_what_is_no_product_is_not_worth_storing_narrow() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Celu (x) }"
    [decision] = decisions(text, "all-fp16", opset=17).values()
    assert (decision.form, decision.reason) == (Form.WIDE, Reason.SCHEMA)


def test_with_wide_products_the_other_ops_run_in_the_format() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) { h = MatMul (x, x) r = Relu (h) y = Neg (r) }"
    found = decisions(text, "all-fp16", matmul_output="wide")
    assert {name: each.form for name, each in found.items()} == {
        "h": Form.STORAGE,
        "r": Form.NATIVE,
        "y": Form.NATIVE,
    }


EVERY = """g (float[2,2] x) => (float[2,2] y, float[2,2] z) <float[2,2] w = {1, 2, 3, 0.3}> {
    h = MatMul (x, w) s = Add (h, x) a = Relu (s) y = MatMul (a, x) z = Floor (x)
}"""


def test_one_pair_of_casts_serves_every_reader_of_a_value() -> None:
    model = placed(EVERY, "all-fp8e4")
    found = casts(model)
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(
        cast
        for name in "xwhsa"
        for cast in (
            f"{name} -> {name}_float8e4m3fn",
            f"{name}_float8e4m3fn -> {name}_float8e4m3fn_float32",
        )
    )
    rounded = "x_float8e4m3fn_float32"
    assert [operands(model, name)[-1] for name in "sy"] == [rounded] * 2
    assert operands(model, "h")[0] == rounded
    assert operands(model, "z") == ["x"]


def test_only_operands_of_products_are_rounded_in_scope_matmult() -> None:
    model = placed(EVERY, "matmult-fp8e4")
    assert {cast.partition(" ")[0] for cast in casts(model) if "float32" not in cast} == {
        "x",
        "w",
        "a",
    }
    assert operands(model, "s") == ["h", "x"]


@pytest.mark.parametrize(
    ("text", "token", "opset", "options", "dtype"),
    [
        (GEMM, "all-fp8e4", 21, {}, FLOAT8),
        (GEMM, "all-fp16", 21, {"matmul_output": "wide"}, ir.DataType.FLOAT16),
        (CONV, "matmult-bf16", 17, {}, ir.DataType.BFLOAT16),
    ],
)
def test_weights_are_stored_narrow_with_one_cast_up(
    text: str, token: str, opset: int, options: dict[str, Any], dtype: ir.DataType
) -> None:
    model = piped(text, token, opset=opset, **options)
    assert {name: value.dtype for name, value in model.graph.initializers.items()} == {
        "w": dtype,
        "b": FLOAT,
    }
    stored = model.graph.initializers["w"]
    assert stored.const_value is not None
    wide = np.array([1, 2, 3, 0.3], np.float32)
    narrow = np.asarray(stored.const_value.numpy(), np.float32).reshape(-1)
    np.testing.assert_array_equal(narrow, formats.round_to(wide, formats.of(dtype)))
    [cast] = stored.consumers()
    assert cast_target(cast) == FLOAT
    assert [node.outputs[0].name for node, _ in cast.outputs[0].uses()] == ["y"]


def test_a_weight_that_is_moved_first_is_stored_narrow_too() -> None:
    text = """g (float[2,3] x) => (float[2,2] y) <float[2,3] w = {1, 2, 3, 0.3, 5, 6}> {
        t = Transpose (w) y = MatMul (x, t) }"""
    model = piped(text, "all-fp8e4")
    assert model.graph.initializers["w"].dtype == FLOAT8
    assert len([cast for cast in casts(model) if not cast.startswith("x")]) == 1


def test_a_value_that_is_narrow_already_is_only_cast_up() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) {
        a = Relu (x) t = Transpose (a) y = MatMul (t, t) }"""
    model = placed(text, "all-fp16", matmul_output="wide")
    assert casts(model) == ["x -> x_float16", "t -> t_float32"]
    assert operands(model, "y") == ["t_float32", "t_float32"]


@pytest.mark.parametrize(("source", "to"), [("float16", 10), ("float8e4m3fn", 17)])
def test_what_the_model_itself_cast_up_is_rounded_already(source: str, to: int) -> None:
    text = f"""g ({source}[2,2] n) => (float[2,2] y) {{
        x = Cast <to = 1> (n) y = MatMul (x, x) }}"""
    model = placed(text, "all-fp16", matmul_output="wide")
    assert casts(model) == ["n -> x"]
    twice = f"""g (float[2,2] n) => (float[2,2] y) {{
        h = Cast <to = {to}> (n) x = Cast <to = 1> (h) y = MatMul (x, x) }}"""
    assert casts(placed(twice, "all-fp16", matmul_output="wide")) == ["n -> h", "h -> x"]


def test_what_was_cast_up_from_a_finer_format_is_rounded_once_more() -> None:
    text = """g (float16[2,2] n) => (float[2,2] y) {
        x = Cast <to = 1> (n) y = MatMul (x, x) }"""
    assert casts(placed(text, "all-fp8e4")) == [
        "n -> x",
        "x -> x_float8e4m3fn",
        "x_float8e4m3fn -> x_float8e4m3fn_float32",
    ]


ONE = """g (float[2] x) => (float[2] y, float[2] z, float[2] f)
    <float k = {0.3}, float[1] l = {0.5}> {
    a = Mul (x, k) y = Add (a, l) z = Sub (a, k) f = Mod <fmod = 1> (x, k)
}"""


def test_a_one_element_constant_is_rounded_in_place_and_stays_float32() -> None:
    model = piped(ONE, "all-fp8e4")
    assert operands(model, "a")[1] == operands(model, "z")[1] == "k_float8e4m3fn"
    rounded = model.graph.initializers["k_float8e4m3fn"].const_value
    assert rounded is not None
    assert (rounded.dtype, tuple(rounded.shape)) == (FLOAT, ())
    assert rounded.numpy() == formats.round_to(np.array(0.3, np.float32), FLOAT8E4M3FN)
    assert operands(model, "f")[1] == "k"
    kept = model.graph.initializers["k"].const_value
    assert kept is not None
    assert kept.numpy() == np.float32(0.3)


def test_a_one_element_constant_that_the_format_holds_stays_the_same() -> None:
    model = placed(ONE, "all-fp8e4")
    assert operands(model, "y")[1] == "l"
    assert set(model.graph.initializers) == {"k", "l", "k_float8e4m3fn"}


def test_casts_to_float8_say_that_they_saturate() -> None:
    model = piped(EVERY, "all-fp8e4")
    down = [node for node in model.graph if cast_target(node) == FLOAT8]
    assert len(down) == 4
    assert [node.attributes["saturate"].as_int() for node in down] == [1] * 4


def test_other_casts_say_nothing_of_it() -> None:
    model = piped(EVERY, "all-fp16", matmul_output="wide")
    down = [node for node in model.graph if cast_target(node) == ir.DataType.FLOAT16]
    assert down
    assert not any("saturate" in node.attributes for node in down)


@pytest.mark.parametrize(("before", "after"), [(8, 9), (9, 9), (10, 10)])
def test_a_model_with_float8_is_of_an_ir_version_that_has_it(before: int, after: int) -> None:
    model = load(GEMM)
    model.ir_version = before
    for pass_ in build_pipeline(make_policy(fp32_cast="all-fp8e4"), GENERIC):
        pass_(model)
    assert checked(model).ir_version == after


def test_the_ir_version_stays_where_nothing_becomes_float8() -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Floor (x) }")
    model.ir_version = 8
    for pass_ in build_pipeline(make_policy(fp32_cast="all-fp8e4"), GENERIC):
        pass_(model)
    assert model.ir_version == 8


@pytest.mark.parametrize("token", ["all-fp8e4", "matmult-fp8e4", "inputs-fp8e4"])
def test_the_result_computes_with_rounded_numbers(token: str) -> None:
    text = """g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 0.3}> {
        y = MatMul (x, w) }"""
    x = np.array([[0.3, -1.7], [33.3, 1000]], np.float32)
    weight = np.array([[1, 2], [3, 0.3]], np.float32)
    if token != "inputs-fp8e4":
        weight = formats.round_to(weight, FLOAT8E4M3FN)
    [found] = golden.run(ir.to_proto(piped(text, token)), {"x": x})
    np.testing.assert_allclose(found, formats.round_to(x, FLOAT8E4M3FN) @ weight, rtol=1e-6)


LIMITED = """g (float[2,2] x) => (float[2,2] y, float[2,2] z) <float[2,2] w = {1, 2, 240, 0.3}> {
    h = MatMul (x, w) y = MatMul (h, w) z = MatMul (h, x)
}"""


def clips(model: ir.Model) -> dict[str | None, list[float]]:
    """The limits of each value that is clipped, checked to be right before a Cast to float8."""
    found: dict[str | None, list[float]] = {}
    for node in (node for graph in main_graphs(model) for node in graph):
        if node.op_type != "Clip":
            continue
        value, *limits = node.inputs
        assert value is not None
        assert value.name not in found
        numbers = []
        for limit in limits:
            assert limit is not None
            producer = limit.producer()
            tensor = (
                limit.const_value if producer is None else producer.attributes["value"].as_tensor()
            )
            assert tensor is not None
            numbers.append(float(tensor.numpy()))
        found[value.name] = numbers
        assert [cast_target(reader) for reader in node.outputs[0].consumers()] == [FLOAT8]
    return found


def test_where_the_targets_float8_ends_at_240_run_time_values_are_clipped_to_it() -> None:
    model = piped(LIMITED, "all-fp8e4", target=LEGACY)
    assert clips(model) == {"x": [-240.0, 240.0], "h": [-240.0, 240.0]}
    assert model.graph.initializers["w"].dtype == FLOAT8
    assert clips(piped(LIMITED, "all-fp8e4")) == {}


def test_inputs_are_clipped_too() -> None:
    assert clips(piped(LIMITED, "inputs-fp8e4", target=LEGACY)) == {"x": [-240.0, 240.0]}


def test_what_is_beyond_240_becomes_240() -> None:
    text = "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 0, 0, 1}> { y = MatMul (x, w) }"
    x = np.array([[-1e6, -300], [239, 447]], np.float32)
    [legacy] = golden.run(ir.to_proto(piped(text, "all-fp8e4", target=LEGACY)), {"x": x})
    np.testing.assert_array_equal(legacy, [[-240, -240], [240, 240]])
    [full] = golden.run(ir.to_proto(piped(text, "all-fp8e4")), {"x": x})
    np.testing.assert_array_equal(full, [[-448, -288], [240, 448]])


@pytest.mark.parametrize(
    ("largest", "legacy", "full"),
    [
        (240, Reason.STORAGE, Reason.STORAGE),
        (247, Reason.STORAGE, Reason.STORAGE),  # rounded to 240
        (248, Reason.OUT_OF_RANGE, Reason.STORAGE),
        (300, Reason.OUT_OF_RANGE, Reason.STORAGE),
        (448, Reason.OUT_OF_RANGE, Reason.STORAGE),
        (500, Reason.OUT_OF_RANGE, Reason.OUT_OF_RANGE),
    ],
)
def test_constants_beyond_the_range_of_the_targets_float8_stay_float32(
    largest: float, legacy: Reason, full: Reason
) -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {{1, 2, 0.3, -{largest}}}> {{
        y = MatMul (x, w) }}"""
    for target, wanted in ((LEGACY, legacy), (GENERIC, full)):
        assert decisions(text, "all-fp8e4", target=target)["y"].reason is wanted
        stored = piped(text, "all-fp8e4", target=target).graph.initializers["w"].dtype
        assert stored == (FLOAT if wanted is Reason.OUT_OF_RANGE else FLOAT8)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_a_constant_that_is_not_finite_keeps_float8_away(number: float) -> None:
    model = load(
        """g (float[2,2] x) => (float[2,2] y) <float[2,2] m = {0, 1, 2, 3}> { y = Add (x, m) }"""
    )
    array = np.array([[0, 1], [2, number]], np.float32)
    model.graph.initializers["m"].const_value = ir.tensor(array, name="m")

    def reason(token: str) -> tuple[str, Reason]:
        return decided(make_plan(model, make_policy(fp32_cast=token), GENERIC))["y"]

    assert reason("all-fp8e4") == ("float32", Reason.OUT_OF_RANGE)
    assert reason("all-fp16") == ("float16", Reason.REQUESTED)


WHOLE = """<ir_version: 8, opset_import: ["": 21]>
g (float[N,4] x, bool c) => (float[N,4] y, float[N,4] p) {
    t = Transpose (v)
    h = MatMul (x, w)
    s = Add (h, b)
    r = Relu (s)
    m = MatMul (r, t)
    k = Mul (m, half)
    p = Softmax (k)
    y = If (c) <
        then_branch = then () => (float[N,4] i) { q = MatMul (p, w) i = Tanh (q) },
        else_branch = other () => (float[N,4] e) { o = Mul (p, half) e = Gemm (o, t, b) }
    >
}"""


def whole() -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(WHOLE)
    generator = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"w": (4, 4), "v": (4, 4), "b": (4,)}
    arrays = {name: generator.uniform(-1, 1, shape) for name, shape in shapes.items()}
    for name, array in (*arrays.items(), ("half", np.array(0.3))):
        tensor = numpy_helper.from_array(array.astype(np.float32), name)
        model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize("target", [GENERIC, LEGACY], ids=["generic", "legacy"])
@pytest.mark.parametrize("output", ["narrow", "wide"])
@pytest.mark.parametrize("token", TOKENS)
def test_a_second_run_gives_the_same_bytes(token: str, output: str, target: Target) -> None:
    once = bytes_of(piped(whole(), token, target=target, matmul_output=output))
    source = onnx.ModelProto.FromString(once)
    assert bytes_of(piped(source, token, target=target, matmul_output=output)) == once


@pytest.mark.parametrize("target", [GENERIC, LEGACY], ids=["generic", "legacy"])
@pytest.mark.parametrize("token", TOKENS)
def test_a_second_run_leaves_constants_with_casts_alone(token: str, target: Target) -> None:
    once = bytes_of(piped(whole(), token, target=target, inline_cast=False))
    source = onnx.ModelProto.FromString(once)
    assert bytes_of(piped(source, token, target=target, inline_cast=False)) == once


@pytest.mark.parametrize("limits", ["float[2] low = {-240, 1}", "float[0] low = {}"])
def test_a_limit_of_other_than_one_element_is_no_limit(limits: str) -> None:
    text = f"g (float[4] x) => (float[4] y) <{limits}> {{ y = Clip (x, low) }}"
    plan = make_plan(load(text), make_policy(fp32_cast="all-fp16"), GENERIC)
    assert all(decision.reason is not Reason.LIMIT for decision in plan.decisions.values())
