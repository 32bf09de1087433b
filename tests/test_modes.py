"""Every mode, from a source to a proved result, on small models."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxcast
from onnxcast import formats
from onnxcast.diagnostics import Code
from onnxcast.formats import FLOAT16, Format
from onnxcast.planning import is_marked
from onnxcast.policy import TOKENS, make_policy
from onnxcast.verification.session import Worker
from tests import golden

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module", autouse=True)
def one_child() -> Iterator[None]:
    """One process that runs onnxruntime for all tests here: starting it takes the most time."""
    with Worker() as worker, pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxcast.api.Worker", lambda: contextlib.nullcontext(worker))
        yield


def parsed(text: str, opset: int = 21, **weights: tuple[int, ...]) -> onnx.ModelProto:
    """A model with weights of these shapes."""
    model: onnx.ModelProto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> {text}'
    )
    generator = np.random.default_rng(0)
    for name, shape in weights.items():
        array = generator.uniform(-0.5, 0.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def mlp() -> onnx.ModelProto:
    return parsed(
        """g (float[N,8] x) => (float[N,4] y) {
            [first] h = MatMul (x, w)
            [bias] s = Add (h, b)
            [act] a = Relu (s)
            [second] l = MatMul (a, v)
            [soft] y = Softmax (l)
        }""",
        w=(8, 16),
        b=(16,),
        v=(16, 4),
    )


def cnn() -> onnx.ModelProto:
    return parsed(
        """g (float[N,3,8,8] x) => (float[N,4] y) {
            [conv] c = Conv <pads = [1, 1, 1, 1]> (x, k, b)
            [act] a = Relu (c)
            [pool] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
            [again] d = Conv (p, m)
            [mean] q = GlobalAveragePool (d)
            [flat] f = Flatten (q)
            [head] y = Gemm (f, w, o)
        }""",
        k=(6, 3, 3, 3),
        b=(6,),
        m=(8, 6, 3, 3),
        w=(8, 4),
        o=(4,),
    )


def proved(source: onnx.ModelProto, token: str = "all-fp16", **options: Any) -> onnxcast.Result:
    result = onnxcast.optimize(source, fp32_cast=token, **options)
    assert result.report.proof is not None
    assert result.report.proof.ok
    assert result.verified
    onnx.checker.check_model(result.to_proto(), full_check=True)
    return result


def element_types(model: onnx.ModelProto) -> dict[str, str]:
    """Of graph inputs and outputs, by name."""
    return {
        value.name: TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        for value in (*model.graph.input, *model.graph.output)
    }


def initializer_types(model: onnx.ModelProto) -> dict[str, str]:
    return {
        each.name: TensorProto.DataType.Name(each.data_type) for each in model.graph.initializer
    }


def formats_of(result: onnxcast.Result) -> dict[str, str]:
    return {row["node"]: row["format"] for row in result.report.to_dict()["groups"]}


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {"mlp": mlp, "cnn": cnn}


CASES = [
    *((token, "mlp") for token in TOKENS),
    *((token, "cnn") for token in TOKENS if make_policy(fp32_cast=token).token == token),
]


@pytest.mark.parametrize(("token", "name"), CASES)
def test_every_token_verifies_on_a_made_up_sample(token: str, name: str) -> None:
    source = MODELS[name]()
    before = source.SerializeToString(deterministic=True)
    result = proved(source, token)
    policy = make_policy(fp32_cast=token)
    assert result.report.token == policy.token
    assert source.SerializeToString(deterministic=True) == before
    assert element_types(result.to_proto()) == {"x": "FLOAT", "y": "FLOAT"}
    narrow = {format_ for format_ in formats_of(result).values() if format_ != "float32"}
    assert narrow <= {str(policy.format)}
    assert len(narrow) == (policy.format is not None)
    assert is_marked(result.model) == policy.is_float32r


def matmul() -> onnx.ModelProto:
    return parsed("g (float[2,8] x) => (float[2,4] y) { [it] y = MatMul (x, w) }", w=(8, 4))


SAMPLE = np.random.default_rng(1).standard_normal((2, 8), dtype=np.float32)


def outputs(model: onnx.ModelProto, **feeds: Array) -> list[Array]:
    return [np.asarray(each) for each in golden.run(model, feeds)]


def rounded_outputs(model: onnx.ModelProto, **feeds: Array) -> list[Array]:
    """By onnx's reference, as onnxruntime leaves out Casts around ops that it has no kernel for."""
    return [np.asarray(each) for each in ReferenceEvaluator(model).run(None, feeds)]


@pytest.mark.parametrize(
    ("token", "format_"), [("inputs-fp16", FLOAT16), ("inputs-fp8e4", formats.FLOAT8E4M3FN)]
)
def test_inputs_are_rounded_and_nothing_else(token: str, format_: Format) -> None:
    source = matmul()
    result = proved(source, token, inputs={"x": SAMPLE})
    rounded = formats.round_to(SAMPLE, format_)
    assert not np.array_equal(rounded, SAMPLE)
    np.testing.assert_array_equal(
        outputs(result.to_proto(), x=SAMPLE)[0], outputs(source, x=rounded)[0]
    )
    assert initializer_types(result.to_proto()) == {"w": "FLOAT"}


@pytest.mark.parametrize(
    ("io_types", "types"),
    [
        ("keep", {"x": "FLOAT", "z": "FLOAT", "y": "FLOAT", "k": "FLOAT"}),
        ("narrow", {"x": "FLOAT16", "z": "FLOAT16", "y": "FLOAT16", "k": "FLOAT16"}),
        ("x=fp16", {"x": "FLOAT16", "z": "FLOAT", "y": "FLOAT", "k": "FLOAT"}),
        ({"y": "fp16", "x": "fp32"}, {"x": "FLOAT", "z": "FLOAT", "y": "FLOAT16", "k": "FLOAT"}),
        ("narrow,y=fp32,z=fp32", {"x": "FLOAT16", "z": "FLOAT", "y": "FLOAT", "k": "FLOAT16"}),
    ],
    ids=str,
)
def test_the_interface_has_the_types_that_are_asked_for(
    io_types: Any, types: dict[str, str]
) -> None:
    source = parsed(
        """g (float[2,8] x, float[2,4] z) => (float[2,4] y, float[2,4] k) {
            h = MatMul (x, w) y = Add (h, z) k = Floor (y) }""",
        w=(8, 4),
    )
    # Multiples of a quarter, so that nothing moves across a whole number.
    x, z = np.rint(SAMPLE * 4) / 4, np.rint(SAMPLE[:, :4] * 4) / 4
    source.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.eye(8, 4, dtype=np.float32) * 0.5 + 0.25, "w")
    )
    result = proved(source, io_types=io_types, inputs={"x": x, "z": z})
    model = result.to_proto()
    assert element_types(model) == types
    fed = {name: array.astype(kind(types[name])) for name, array in (("x", x), ("z", z))}
    for found, wanted, name in zip(
        outputs(model, **fed), outputs(source, x=x, z=z), ("y", "k"), strict=True
    ):
        assert found.dtype == kind(types[name])
        np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2.0**-9)


def kind(name: str) -> Any:
    return {"FLOAT": np.float32, "FLOAT16": np.float16}[name]


@pytest.mark.parametrize(
    ("kept", "types"),
    [
        (True, {"x": "FLOAT", "y": "FLOAT"}),
        (False, {"x": "FLOAT16", "y": "FLOAT16"}),
        (["y"], {"x": "FLOAT16", "y": "FLOAT"}),
    ],
    ids=str,
)
def test_keep_io_types_reaches_the_result(kept: Any, types: dict[str, str]) -> None:
    assert element_types(proved(mlp(), keep_io_types=kept).to_proto()) == types


@pytest.mark.parametrize("token", ["all-fp32r", "none"])
def test_types_may_be_named_where_nothing_becomes_narrow(token: str) -> None:
    result = proved(mlp(), token, io_types="x=fp16", tolerance=1e-2)
    assert element_types(result.to_proto()) == {"x": "FLOAT16", "y": "FLOAT"}


def test_an_io_name_that_is_none_is_an_error() -> None:
    with pytest.raises(onnxcast.InputError, match="no graph input or output 'yy'; nearest: y"):
        onnxcast.optimize(mlp(), fp32_cast="all-fp16", io_types="yy=fp16")


def test_a_result_with_narrow_types_is_verified_against_its_source() -> None:
    source = mlp()
    result = proved(source, io_types="narrow")
    assert onnxcast.verify(source, result.to_proto()).ok


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("token", ["all-fp16", "matmult-bf16", "all-fp8e4"])
def test_constants_are_stored_narrow_or_stay_with_a_cast(token: str, inline: bool) -> None:
    source = matmul()
    model = proved(source, token, inline_cast=inline).to_proto()
    dtype = make_policy(fp32_cast=token).dtypes.pop()
    assert initializer_types(model) == {"w": dtype.name if inline else "FLOAT"}
    down = [
        node for node in model.graph.node if node.op_type == "Cast" and list(node.input) == ["w"]
    ]
    to = [attribute.i for node in down for attribute in node.attribute if attribute.name == "to"]
    if not inline:
        assert to == [dtype]
        assert model.graph.initializer[0].raw_data == source.graph.initializer[0].raw_data
    else:
        assert dtype not in to


def test_both_ways_of_storing_constants_give_the_same_numbers() -> None:
    found = [
        rounded_outputs(proved(matmul(), inline_cast=inline).to_proto(), x=SAMPLE)[0]
        for inline in (True, False)
    ]
    np.testing.assert_array_equal(found[0], found[1])


MASKED = """g (float[2,8] x, bool[2,8] seen) => (float[2,8] y) <float low = {-3.4e38}> {
    [product] h = MatMul (x, w)
    [mask] s = Where (seen, h, low)
    [soft] y = Softmax (s)
}"""
SEEN = np.array([[1, 1, 0, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0, 0]], bool)


def masked() -> tuple[onnx.ModelProto, dict[str, Array]]:
    return parsed(MASKED, w=(8, 8)), {"x": SAMPLE, "seen": SEEN}


def test_a_mask_stays_float32_by_default() -> None:
    source, feeds = masked()
    result = proved(source, inputs=feeds)
    assert formats_of(result) == {"product": "float16", "mask": "float32", "soft": "float32"}
    assert Code.MASK_CLAMPED not in {finding.code for finding in result.report.findings}
    [low] = [each for each in result.to_proto().graph.initializer if each.name == "low"]
    np.testing.assert_array_equal(numpy_helper.to_array(low), np.float32(-3.4e38))


def test_a_mask_is_clamped_and_narrow_on_request() -> None:
    source, feeds = masked()
    result = proved(source, inputs=feeds, clamp_masks=True)
    assert formats_of(result) == {"product": "float16", "mask": "float16", "soft": "float16"}
    [finding] = [each for each in result.report.findings if each.code is Code.MASK_CLAMPED]
    assert finding.code.value == "OC203"
    assert finding.value == "low"
    assert finding.message == "low: -3.4e+38 became -65504"
    [found] = outputs(result.to_proto(), **feeds)
    assert not found[~SEEN].any()
    np.testing.assert_allclose(found, outputs(source, **feeds)[0], atol=1e-2)


LOUD = {"x": np.full((2, 4), 1000, np.float32)}
SQUARED = """g (float[2,4] x) => (float[2,4] y) <float small = {0.001}> {
    [square] s = Mul (x, x) [scale] y = Mul (s, small) }"""


def test_without_repair_what_does_not_verify_is_refused() -> None:
    with pytest.raises(onnxcast.VerificationError, match="first diverging node: square"):
        onnxcast.optimize(parsed(SQUARED), fp32_cast="all-fp16", inputs=LOUD, repair=False)
    repaired = proved(parsed(SQUARED), inputs=LOUD)
    assert formats_of(repaired)["square"] == "float32"


def test_what_is_narrowed_on_request_is_not_repaired() -> None:
    with pytest.raises(onnxcast.VerificationError):
        onnxcast.optimize(
            parsed(SQUARED), fp32_cast="all-fp16", inputs=LOUD, narrow_nodes=["square"]
        )


def overflowing() -> onnx.ModelProto:
    """A product that reaches 4e5, scaled down behind it."""
    return parsed(
        """g (float[2,4] x) => (float[2,4] y)
        <float[4,4] w = {100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100},
         float small = {0.001}> { [product] h = MatMul (x, w) [scale] y = Mul (h, small) }"""
    )


def test_wide_products_do_not_overflow() -> None:
    source, feeds = overflowing(), {"x": np.full((2, 4), 3000, np.float32)}
    model, native = (
        onnxcast.optimize(
            source, fp32_cast="matmult-fp16", matmul_output=output, verify=False
        ).to_proto()
        for output in ("wide", "narrow")
    )
    [wanted] = outputs(source, **feeds)
    with np.errstate(over="ignore"):
        assert np.isinf(rounded_outputs(native, **feeds)[0]).all()
    np.testing.assert_array_equal(outputs(model, **feeds)[0], wanted)
    result = proved(source, "matmult-fp16", matmul_output="wide", inputs=feeds, repair=False)
    assert result.report.to_dict()["groups"][0]["form"] == "STORAGE"
    with pytest.raises(onnxcast.VerificationError, match="first diverging node: product"):
        onnxcast.optimize(source, fp32_cast="matmult-fp16", inputs=feeds, repair=False)


def test_wide_products_are_nearer_to_the_source() -> None:
    source = matmul()
    errors = {}
    for output in ("wide", "narrow"):
        result = proved(source, "matmult-fp16", matmul_output=output, inputs={"x": SAMPLE})
        found = rounded_outputs(result.to_proto(), x=SAMPLE)[0]
        errors[output] = float(np.abs(found - outputs(source, x=SAMPLE)[0]).max())
    assert 0 < errors["wide"] < errors["narrow"]


def test_wide_products_are_float32_products_of_rounded_operands() -> None:
    source = matmul()
    result = proved(source, "all-fp16", matmul_output="wide", inputs={"x": SAMPLE})
    weight = numpy_helper.to_array(source.graph.initializer[0])
    rounded = (formats.round_to(each, FLOAT16) for each in (SAMPLE, weight))
    product = np.matmul(*rounded)
    np.testing.assert_allclose(outputs(result.to_proto(), x=SAMPLE)[0], product, rtol=1e-6)


@pytest.mark.parametrize("bits", [5, 10])
def test_marks_of_float32r_bear_its_bits_and_change_no_number(bits: int) -> None:
    source = mlp()
    result = proved(source, "all-fp32r", fp32r_bits=bits, tolerance=0.2, inputs={"x": SAMPLE})
    assert {name for name in formats_of(result).values() if name != "float32"} == {
        f"float32r{bits}"
    }
    model = result.to_proto()
    np.testing.assert_allclose(outputs(model, x=SAMPLE)[0], outputs(source, x=SAMPLE)[0], rtol=1e-6)
    assert not [node for node in model.graph.node if node.op_type == "Cast"]


def tanh() -> onnx.ModelProto:
    return parsed("g (float[2,8] x) => (float[2,8] y) { h = Tanh (x) y = Neg (h) }")


def test_the_proof_of_float32r_rounds_to_its_bits() -> None:
    """Fewer bits, larger errors: the twin rounds, although the result itself does not."""
    errors = []
    for bits in (12, 8, 4):
        result = proved(tanh(), "all-fp32r", fp32r_bits=bits, tolerance=1.0, inputs={"x": SAMPLE})
        assert result.report.proof is not None
        errors.append(max(each.max_error for each in result.report.proof.twin_errors))
    assert errors[0] < errors[1] < errors[2]


def wish(node: ir.Node) -> str | None:
    return {"act": "wide", "bias": "narrow"}.get(node.name or "")


def test_requests_reach_the_result() -> None:
    assert formats_of(proved(mlp(), "matmult-fp16", policy=wish, narrow_ops=["re:Soft.*"])) == {
        "first": "float16",
        "bias": "float16",
        "act": "float32",
        "second": "float16",
        "soft": "float16",
    }
    assert formats_of(proved(mlp(), op_block_list=["MatMul"], node_block_list=["s*t"])) == {
        "first": "float32",
        "bias": "float16",
        "act": "float16",
        "second": "float32",
        "soft": "float32",
    }


ROUNDED = """g (float[2,4] x) => (float[2,4] y) {
    low = Cast <to = 16> (x) [back] high = Cast <to = 1> (low) y = MatMul (high, w) }"""


def test_a_round_trip_of_the_source_stays_unless_it_is_to_go() -> None:
    source = parsed(ROUNDED, w=(4, 4))
    kept = onnxcast.optimize(source, fp32_cast="none")
    assert [node.op_type for node in kept.to_proto().graph.node] == ["Cast", "Cast", "MatMul"]
    result = onnxcast.optimize(
        source, fp32_cast="none", cast_folding="drop-narrowing", tolerance=1e-2
    )
    assert [node.op_type for node in result.to_proto().graph.node] == ["MatMul"]
    [finding] = result.report.findings
    assert finding.code is Code.CAST_ROUNDING_DROPPED
    assert finding.node == "back"
    assert "float32 to bfloat16 to float32" in finding.message
    assert "loses the rounding to 8 significand bits" in finding.message


def test_a_result_without_the_sources_roundings_is_held_to_the_source() -> None:
    with pytest.raises(onnxcast.VerificationError, match="output 'y' does not match"):
        onnxcast.optimize(
            parsed(ROUNDED, w=(4, 4)), fp32_cast="none", cast_folding="drop-narrowing"
        )


@pytest.mark.parametrize("token", ["all-fp8e4", "matmult-fp8e4", "inputs-fp16"])
def test_the_round_trips_of_the_conversion_stay_whatever_is_to_go(token: str) -> None:
    source = parsed(ROUNDED, w=(4, 4))
    result = proved(source, token, cast_folding="drop-narrowing")
    casts = [node for node in result.model.graph if node.op_type == "Cast"]
    assert len(casts) >= 2
    again = onnxcast.optimize(
        result.to_proto(), fp32_cast=token, cast_folding="drop-narrowing", verify=False
    )
    assert not again.modified
    assert again.to_proto().SerializeToString(deterministic=True) == (
        result.to_proto().SerializeToString(deterministic=True)
    )
