"""Whole runs for targets with a table: every Cast is theirs, and a second run changes nothing."""

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnxcast


def parsed(text: str, opset: int = 17, domains: str = "") -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]> {text}'
    )
    return model


def settled(model: onnx.ModelProto, token: str, target: str, **options: Any) -> onnx.ModelProto:
    once = onnxcast.optimize(model, fp32_cast=token, target=target, **options).to_proto()
    twice = onnxcast.optimize(once, fp32_cast=token, target=target, **options).to_proto()
    assert twice == once
    return once


def casts(model: onnx.ModelProto) -> list[int]:
    """What the Casts of the main graph cast to."""
    return [node.attribute[0].i for node in model.graph.node if node.op_type == "Cast"]


@pytest.mark.parametrize(
    ("source", "middle", "to", "left"),
    [
        # A chain that the Cast before it makes shorter: float16 > float32 > float16 > int8.
        ("float16", 1, "int8", [3]),
        ("int16", 1, "int8", [10, 3]),
        ("int16", 6, "int8", [10, 3]),
    ],
)
def test_a_chain_is_folded_with_the_cast_before_it(
    source: str, middle: int, to: str, left: list[int]
) -> None:
    model = parsed(
        f"g ({source}[4] x) => ({to}[4] y) {{ v = Cast <to = {middle}> (x) y = Cast <to = 3> (v) }}"
    )
    for target in ("a5", "a2a3")[: 1 if middle == 6 else 2]:
        assert casts(settled(model, "none", target, verify=False)) == left


TESTED = """g (float[4] x, float[4] z) => (bool[4] y, float[4] w) {
    a = Mul (x, z) y = Cast <to = 9> (a) w = Add (a, z) }"""

MASKED = """g (float[2,4] x, bool[2,4] b) => (float[2,4] y) <float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8,
    1, 2, 3, 4, 5, 6, 7, 8}> { m = MatMul (x, w) f = Cast <to = 1> (b) y = Mul (m, f) }"""


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize("token", ["all-fp16", "all", "matmult-fp16", "inputs"])
@pytest.mark.parametrize("text", [TESTED, MASKED])
def test_casts_of_bool_are_lowered_before_the_plan(text: str, token: str, target: str) -> None:
    made = settled(parsed(text), token, target)
    assert onnx.TensorProto.BOOL not in casts(made)


def test_what_becomes_a_truth_value_stays_wide() -> None:
    made = settled(parsed(TESTED), "all-fp16", "a5")
    (product,) = (node for node in made.graph.node if node.op_type == "Mul")
    assert list(product.input) == ["x", "z"], "a small product would flush to 0"


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7, 12, 13, 1, 10, 11])
def test_a_truth_value_becomes_a_number_of_every_type_and_is_proved(number: int) -> None:
    names = onnx.TensorProto.DataType
    model = parsed(
        f"g (bool[3] x) => ({names.Name(number).lower()}[3] y) {{ y = Cast <to = {number}> (x) }}"
    )
    feeds = {"x": np.array([True, False, True])}
    result = onnxcast.optimize(model, fp32_cast="none", target="a5", inputs=feeds)
    assert result.verified
    assert "Where" in [node.op_type for node in result.to_proto().graph.node]


def test_choices_of_the_model_itself_keep_their_shape() -> None:
    model = parsed(
        """g (bool[3] c, float[3] x) => (int64[1,3] y, float[3] z)
        <int64[1,1] one = {1}, int64[1,1] zero = {0}> { y = Where (c, one, zero) z = Abs (x) }"""
    )
    assert onnxcast.optimize(model, fp32_cast="all-fp16").verified


@pytest.mark.parametrize(("reader", "wide"), [("Not (e)", True), ("Identity (e)", False)])
def test_a_test_for_zero_is_a_lowered_cast_only_where_its_inverse_is_read(
    reader: str, wide: bool
) -> None:
    model = parsed(
        f"""g (float[4] x, float[4] z) => (bool[4] y, float[4] w) <float zero = {{0}}> {{
            [product] a = Mul (x, z) e = Equal (a, zero) y = {reader} w = Add (a, z) }}"""
    )
    plan = onnxcast.plan(model, fp32_cast="all-fp16")
    (row,) = (row for row in plan.rows() if row["node"] == "product")
    assert (row["format"] == "float32") == wide


UNCALLED = """g (float[3] x) => (float[3] y) { y = Relu (x) }
<domain: "l", opset_import: ["" : 17]> F (a) => (b) { b = Cast <to = 10> (a) }"""

CALLED_TWICE = """g (int64[3] x, int32[3] z) => (float16[3] y, float16[3] w) {
    y = l.F (x) w = l.F (z) }
<domain: "l", opset_import: ["" : 17]> F (a) => (b) { b = Cast <to = 10> (a) }"""


def test_functions_that_nobody_calls_go() -> None:
    made = settled(parsed(UNCALLED, domains=', "l" : 1'), "none", "a5")
    assert not made.functions


def test_functions_are_told_apart_by_the_types_of_their_calls() -> None:
    made = settled(parsed(CALLED_TWICE, domains=', "l" : 1'), "none", "a5")
    assert len(made.functions) == 2
    for function in made.functions:
        assert [node.attribute[0].i for node in function.node] == [1, 10]


def test_a_target_without_the_casts_of_a_format_is_told_first() -> None:
    narrow = onnxcast.Target(
        name="one way",
        preferred=onnxcast.formats.FLOAT16,
        casts=(onnxcast.targets.NativeCast(onnxcast.formats.FLOAT32, onnxcast.formats.FLOAT16),),
    )
    kept = onnxcast.optimize(parsed(MASKED), target=narrow, illegal_casts="keep")
    assert kept.verified
    with pytest.raises(onnxcast.InputError) as caught:
        onnxcast.optimize(parsed(TESTED), target=narrow)
    assert str(caught.value) == (
        "target one way has no Casts to float16 and back: give another target or one of fp32r, "
        "float32r"
    )


TYPES = [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 16]


@st.composite
def cast_graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Casts of Casts, some of them graph outputs, of inputs of several types."""
    names = onnx.TensorProto.DataType
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    values = [(f"x{index}", kind) for index, kind in enumerate(kinds)]
    inputs = list(values)
    lines = []
    for index in range(draw(st.integers(1, 8))):
        source, _ = draw(st.sampled_from(values))
        to = draw(st.sampled_from(TYPES))
        lines.append(f"v{index} = Cast <to = {to}> ({source})")
        values.append((f"v{index}", to))
    results = draw(st.lists(st.sampled_from(values[len(inputs) :]), min_size=1, unique=True))

    def declared(pairs: list[tuple[str, int]]) -> str:
        return ", ".join(f"{names.Name(kind).lower()}[4] {name}" for name, kind in pairs)

    text = f"g ({declared(inputs)}) => ({declared(results)}) {{ {' '.join(lines)} }}"
    return parsed(text)


@settings(max_examples=60, deadline=None)
@given(cast_graphs(), st.sampled_from(["a5", "a2a3"]), st.booleans())
def test_random_casts_settle_and_keep_small_numbers(
    model: onnx.ModelProto, target: str, exact: bool
) -> None:
    options = {"illegal_casts": "keep", "cast_bridges": "exact" if exact else "native"}
    made = settled(model, "none", target, verify=False, **options)
    onnx.checker.check_model(made, full_check=True)
    numbers = np.array([0, 1, 3, 100])
    feeds = {
        info.name: numbers.astype(ir.DataType(info.type.tensor_type.elem_type).numpy())
        for info in model.graph.input
    }
    wanted, found = (
        onnx.reference.ReferenceEvaluator(each).run(None, feeds) for each in (model, made)
    )
    for before, after in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(before, after)
