"""Every row of the table of meanings is proved by running a node that it is about."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast import formats
from onnxcast.formats import BFLOAT16, FLOAT16
from onnxcast.graph.walk import op_name
from onnxcast.policy import MEANINGS, Meaning, Row, has_meaning

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Example:
    """A graph around one node.

    Attributes:
        node: The node, or the nodes with the one that matters last; results are named y, y2, …
        x: Shape of the operand x.
        w: Shape of the operand w; "" if there is none.
        constants: Initializers.
        opset: Opset version.
        results: Names of the graph outputs.
        reference: Run on onnx's reference evaluator, as onnxruntime lacks the op.
    """

    node: str
    x: str = "4,4"
    w: str = ""
    constants: str = ""
    opset: int = 21
    results: str = "y"
    reference: bool = False

    def proto(self) -> onnx.ModelProto:
        operands = f"float[{self.x}] x" + (f", float[{self.w}] w" if self.w else "")
        return onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["": {self.opset}]> '
            f"g ({operands}) => ({self.results}) <{self.constants}> {{ {self.body} }}"
        )

    @property
    def body(self) -> str:
        return (
            self.node
            if "=" in self.node.partition("(")[0].partition("<")[0]
            else (f"{self.results} = {self.node}")
        )

    def shape(self, name: str) -> tuple[int, ...]:
        text = self.x if name == "x" else self.w
        return tuple(int(size) for size in text.split(","))

    def subject(self) -> ir.Node:
        return ir.from_proto(self.proto()).graph[-1]


@functools.cache
def runner(example: Example) -> Any:
    proto = example.proto()
    if example.reference:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(proto)
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def run(example: Example, x: Array, w: Array | None = None) -> list[Array]:
    feeds = {"x": x} | ({} if w is None else {"w": w})
    return [np.asarray(result) for result in runner(example).run(None, feeds)]


INDEX = "int64[1] s = {0}"

EXAMPLES: Mapping[str, Example] = {
    # Data movement.
    "Identity": Example("Identity (x)"),
    "Reshape": Example("Reshape (x, s)", constants="int64[2] s = {2, 8}"),
    "Flatten": Example("Flatten (x)", x="2,2,4"),
    "Squeeze": Example("Squeeze (x)", x="1,4"),
    "Unsqueeze": Example("Unsqueeze (x, s)", constants=INDEX),
    "Transpose": Example("Transpose (x)"),
    "Slice": Example("Slice (x, s, e)", constants="int64[1] s = {1}, int64[1] e = {3}"),
    "Split": Example("Split <num_outputs = 2> (x)", results="y, y2"),
    "Concat": Example("Concat <axis = 0> (x, w)", w="2,4"),
    "Expand": Example("Expand (x, s)", constants="int64[3] s = {2, 4, 4}"),
    "Tile": Example("Tile (x, s)", constants="int64[2] s = {2, 1}"),
    "Gather": Example("Gather (x, s)", constants="int64[3] s = {2, 0, 2}"),
    "GatherElements": Example("GatherElements (x, s)", constants="int64[1,2] s = {2, 0}"),
    "GatherND": Example("GatherND (x, s)", constants="int64[1,2] s = {2, 0}"),
    "Compress": Example("Compress <axis = 0> (x, s)", constants="bool[4] s = {0, 1, 1, 0}"),
    "Scatter": Example("Scatter (x, s, w)", w="1,2", constants="int64[1,2] s = {2, 0}", opset=10),
    "ScatterElements": Example(
        "ScatterElements (x, s, w)", w="1,2", constants="int64[1,2] s = {2, 0}"
    ),
    "ScatterND": Example("ScatterND (x, s, w)", w="1,4", constants="int64[1,1] s = {2}"),
    "DepthToSpace": Example("DepthToSpace <blocksize = 2> (x)", x="1,4,2,2"),
    "SpaceToDepth": Example("SpaceToDepth <blocksize = 2> (x)", x="1,1,4,4"),
    "ReverseSequence": Example("ReverseSequence (x, s)", constants="int64[4] s = {1, 2, 3, 4}"),
    "Trilu": Example("Trilu (x)"),
    "Pad": Example("Pad (x, s)", constants="int64[4] s = {1, 0, 0, 2}"),
    "CenterCropPad": Example("CenterCropPad (x, s)", constants="int64[2] s = {2, 6}"),
    "Where": Example("Where (s, x, w)", w="4,4", constants="bool[4] s = {0, 1, 1, 0}"),
    # Shapes.
    "Shape": Example("Shape (x)"),
    "Size": Example("Size (x)"),
    # Products.
    "MatMul": Example("MatMul (x, w)", w="4,3"),
    "Gemm": Example("Gemm (x, w)", w="4,3"),
    "Conv": Example("Conv (x, w)", x="1,2,4,4", w="3,2,2,2"),
    "ConvTranspose": Example("ConvTranspose (x, w)", x="1,2,4,4", w="2,3,2,2"),
    "Einsum": Example('Einsum <equation = "ij,jk->ik"> (x, w)', w="4,3"),
    "Attention": Example(
        "Attention (x, w, v)",
        x="1,1,2,4",
        w="1,1,3,4",
        constants=f"float[1,1,3,4] v = {{{', '.join(str(k / 4) for k in range(12))}}}",
        opset=23,
    ),
    # Sums.
    "ReduceSum": Example("ReduceSum (x)"),
    "ReduceMean": Example("ReduceMean (x)"),
    "ReduceProd": Example("ReduceProd (x)"),
    "ReduceL1": Example("ReduceL1 (x)"),
    "ReduceL2": Example("ReduceL2 (x)"),
    "ReduceLogSum": Example("ReduceLogSum (x)"),
    "ReduceLogSumExp": Example("ReduceLogSumExp (x)"),
    "ReduceSumSquare": Example("ReduceSumSquare (x)"),
    "CumSum": Example("CumSum (x, s)", x="8", constants="int64 s = {0}"),
    "CumProd": Example(
        "CumProd (x, s)", x="8", constants="int64 s = {0}", opset=26, reference=True
    ),
    "GlobalAveragePool": Example("GlobalAveragePool (x)", x="1,1,4,4"),
    "GlobalLpPool": Example("GlobalLpPool (x)", x="1,1,4,4"),
    "LpPool": Example("LpPool <kernel_shape = [3, 3]> (x)", x="1,1,3,3"),
    "LpNormalization": Example("LpNormalization (x)", x="1,8"),
    "InstanceNormalization": Example(
        "InstanceNormalization (x, s, s)", x="1,1,2,4", constants="float[1] s = {1}"
    ),
    "LRN": Example("LRN <size = 9, alpha = 9.0> (x)", x="1,5,1,1"),
    "MeanVarianceNormalization": Example("MeanVarianceNormalization (x)", x="1,1,2,4", opset=13),
    "DFT": Example("DFT <axis = 1> (x)", x="1,8,1", opset=17),
    "STFT": Example(
        "STFT (x, s, , n)", x="1,8,1", constants="int64 s = {8}, int64 n = {8}", opset=17
    ),
    "NegativeLogLikelihoodLoss": Example(
        "NegativeLogLikelihoodLoss (x, s)", x="8,1", constants="int64[8] s = {0,0,0,0,0,0,0,0}"
    ),
    "SoftmaxCrossEntropyLoss": Example(
        "SoftmaxCrossEntropyLoss (x, s)", x="4,2", constants="int64[4] s = {0, 1, 0, 1}"
    ),
    # Amplification.
    "Log": Example("Log (x)", x="8"),
    "Reciprocal": Example("Reciprocal (x)", x="8"),
    "Tan": Example("Tan (x)", x="8"),
    "Sinh": Example("Sinh (x)", x="8"),
    "Cosh": Example("Cosh (x)", x="8"),
    "Acosh": Example("Acosh (x)", x="8"),
    "Atanh": Example("Atanh (x)", x="8"),
    "Exp": Example("Exp (x)", x="8"),
    "Pow": Example("Pow (x, s)", x="8", constants="float s = {40}"),
    # Jumps.
    "Equal": Example("Equal (x, s)", x="8", constants="float s = {1}"),
    "Greater": Example("Greater (x, s)", x="8", constants="float s = {1}"),
    "GreaterOrEqual": Example("GreaterOrEqual (s, x)", x="8", constants="float s = {1}"),
    "Less": Example("Less (s, x)", x="8", constants="float s = {1}"),
    "LessOrEqual": Example("LessOrEqual (x, s)", x="8", constants="float s = {1}"),
    "ArgMax": Example("ArgMax <axis = 0> (x)", x="8"),
    "ArgMin": Example("ArgMin <axis = 0> (x)", x="8"),
    "TopK": Example("TopK (x, s)", x="8", constants=INDEX.replace("0", "1"), results="y, y2"),
    "Unique": Example("Unique (x)", x="8"),
    "Hardmax": Example("Hardmax (x)", x="1,8"),
    "NonZero": Example("NonZero (x)", x="8"),
    "Floor": Example("Floor (x)", x="8"),
    "Ceil": Example("Ceil (x)", x="8"),
    "Round": Example("Round (x)", x="8"),
    "Sign": Example("Sign (x)", x="8"),
    "Mod": Example("Mod <fmod = 1> (x, s)", x="8", constants="float s = {3}"),
    "IsInf": Example("IsInf (x)", x="8"),
    "NonMaxSuppression": Example(
        "NonMaxSuppression (b, x, n, s, s)",
        x="1,1,1",
        constants="float[1,1,4] b = {0, 0, 1, 1}, int64[1] n = {1}, float[1] s = {0.5}",
    ),
    "RoiAlign": Example(
        "RoiAlign <output_height = 1, output_width = 1, coordinate_transformation_mode"
        ' = "output_half_pixel"> (m, x, s)',
        x="1,4",
        constants=f"{INDEX}, float[1,1,4,4] m = {{0,0,0,0,0,9,9,9,0,9,0,9,0,9,9,0}}",
    ),
    "MaxRoiPool": Example(
        "MaxRoiPool <pooled_shape = [1, 1]> (m, x)",
        x="1,5",
        constants="float[1,1,4,4] m = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,9}",
    ),
    "Bernoulli": Example("Bernoulli <seed = 1.0> (x)", x="200000"),
    "Multinomial": Example("Multinomial <seed = 1.0, sample_size = 20000> (x)", x="1,2"),
    # Quantisers.
    "QuantizeLinear": Example(
        "QuantizeLinear (x, s, z)", x="8", constants="float s = {0.5}, int8 z = {0}"
    ),
    "DequantizeLinear": Example(
        "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)",
        x="8",
        constants="float s = {0.5}, int8 z = {0}",
    ),
    "DynamicQuantizeLinear": Example("DynamicQuantizeLinear (x)", x="8", results="y, y2, y3"),
    # Arithmetic.
    "Add": Example("Add (x, w)", x="8", w="8"),
    "Sub": Example("Sub (x, w)", x="8", w="8"),
    "Mul": Example("Mul (x, w)", x="8", w="8"),
    "Div": Example("Div (x, w)", x="8", w="8"),
    "Min": Example("Min (x, w)", x="8", w="8"),
    "Max": Example("Max (x, w)", x="8", w="8"),
    "Clip": Example("Clip (x, l, h)", x="8", constants="float l = {-9}, float h = {9}"),
    "Neg": Example("Neg (x)", x="8"),
    "Abs": Example("Abs (x)", x="8"),
    "Sqrt": Example("Sqrt (x)", x="8"),
    # Bounded results.
    "Softmax": Example("Softmax (x)"),
    "Sigmoid": Example("Sigmoid (x)"),
    "Tanh": Example("Tanh (x)"),
    "Erf": Example("Erf (x)"),
    "HardSigmoid": Example("HardSigmoid (x)"),
    "Softsign": Example("Softsign (x)"),
    "Sin": Example("Sin (x)"),
    "Cos": Example("Cos (x)"),
    "LayerNormalization": Example(
        "LayerNormalization (x, s)", constants="float[4] s = {1, 1, 1, 1}"
    ),
    "GroupNormalization": Example(
        "GroupNormalization <num_groups = 2> (x, s, s)",
        x="1,4,4",
        constants="float[4] s = {1, 1, 1, 1}",
    ),
    "RMSNormalization": Example(
        "RMSNormalization (x, s)", constants="float[4] s = {1, 1, 1, 1}", opset=23
    ),
    "Range": Example("Range (x, s, t)", x="", constants="float s = {5000}, float t = {1}"),
}

# Where a row has a condition: a node that does not meet it, or one that meets it and not the
# other row of the op.
SCATTER_ADD = Example(
    'ScatterElements <reduction = "add"> (x, s, w)',
    x="1",
    w="8",
    constants="int64[8] s = {0, 0, 0, 0, 0, 0, 0, 0}",
)
SCATTER_ND_ADD = Example(
    'ScatterND <reduction = "add"> (x, s, w)',
    x="1",
    w="8",
    constants="int64[8,1] s = {0, 0, 0, 0, 0, 0, 0, 0}",
)
SUBJECTS: Mapping[tuple[str, Meaning], Example] = {
    ("ScatterElements", Meaning.ACCUMULATING): SCATTER_ADD,
    ("ScatterND", Meaning.ACCUMULATING): SCATTER_ND_ADD,
}
SAFE_EXP = Example("m = ReduceMax (x) d = Sub (x, m) y = Exp (d)", x="8")
SQUARE = Example("Pow (x, s)", x="8", constants="float s = {2}")
COUNTER_EXAMPLES: Mapping[tuple[str, Meaning], Example] = {
    ("ScatterElements", Meaning.CARRIER): SCATTER_ADD,
    ("ScatterND", Meaning.CARRIER): SCATTER_ND_ADD,
    ("ScatterElements", Meaning.ACCUMULATING): EXAMPLES["ScatterElements"],
    ("ScatterND", Meaning.ACCUMULATING): EXAMPLES["ScatterND"],
    ("Einsum", Meaning.MATMUL): Example('Einsum <equation = "ij->ji"> (x)'),
    ("Exp", Meaning.AMPLIFYING): SAFE_EXP,
    ("Pow", Meaning.AMPLIFYING): SQUARE,
}


def rows(meaning: Meaning) -> list[str]:
    return [row.op for row in MEANINGS if row.meaning is meaning]


def subject(op: str, meaning: Meaning) -> Example:
    return SUBJECTS.get((op, meaning), EXAMPLES[op])


def data(example: Example, name: str = "x", *, seed: int = 0) -> Array | None:
    if name == "w" and not example.w:
        return None
    values = np.random.default_rng(seed).normal(size=example.shape(name))
    return values.astype(np.float32)


def operand(example: Example, *, seed: int = 0) -> Array:
    values = data(example, seed=seed)
    assert values is not None
    return values


def bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint32)


def test_every_row_has_an_example_and_every_example_a_row() -> None:
    assert {row.op for row in MEANINGS} == set(EXAMPLES)


def test_no_row_is_listed_twice() -> None:
    pairs = [(row.op, row.meaning) for row in MEANINGS]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("row", MEANINGS, ids=lambda row: f"{row.op}-{row.meaning.name}")
def test_the_table_gives_the_example_its_meaning(row: Row) -> None:
    node = subject(row.op, row.meaning).subject()
    assert op_name(node) == row.op
    assert has_meaning(node, row.meaning)


def test_every_condition_has_an_example_that_does_not_meet_it() -> None:
    conditional = {(row.op, row.meaning) for row in MEANINGS if row.when is not None}
    assert conditional == set(COUNTER_EXAMPLES)
    for (op, meaning), example in COUNTER_EXAMPLES.items():
        node = example.subject()
        assert op_name(node) == op
        assert not has_meaning(node, meaning)


def test_an_op_of_another_domain_has_no_meaning() -> None:
    node = ir.node("MatMul", [ir.Value(name="a"), ir.Value(name="b")], domain="com.example")
    assert not any(has_meaning(node, meaning) for meaning in Meaning)


SPECIALS = np.array([np.inf, -np.inf, -0.0, 1e-8, 65504.0, 70000.0], np.float32)


@pytest.mark.parametrize("op", rows(Meaning.CARRIER))
@pytest.mark.parametrize("narrow", [FLOAT16, BFLOAT16], ids=str)
def test_a_carrier_moves_bits(op: str, narrow: formats.Format) -> None:
    example = EXAMPLES[op]
    x, w = operand(example), data(example, "w", seed=1)
    x.reshape(-1)[: min(x.size, SPECIALS.size)] = SPECIALS[: x.size]
    rounded = [None if v is None else formats.round_to(v, narrow) for v in (x, w)]
    assert rounded[0] is not None
    known = {0, *bits(x).flat, *(() if w is None else bits(w).flat)}
    for wide, low in zip(run(example, x, w), run(example, rounded[0], rounded[1]), strict=True):
        assert set(bits(wide).flat) <= known
        np.testing.assert_array_equal(bits(low), bits(formats.round_to(wide, narrow)))


@pytest.mark.parametrize("example", [SCATTER_ADD, SCATTER_ND_ADD], ids=["Elements", "ND"])
def test_a_scatter_with_reduction_moves_no_bits(example: Example) -> None:
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    assert not set(bits(result).flat) <= {*bits(x).flat, *bits(w).flat}


@pytest.mark.parametrize("op", rows(Meaning.METADATA))
def test_a_shape_reader_does_not_see_numbers(op: str) -> None:
    x = operand(EXAMPLES[op])
    [before], [after] = run(EXAMPLES[op], x), run(EXAMPLES[op], np.full_like(x, np.nan))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("op", rows(Meaning.MATMUL))
def test_a_matmul_sees_only_products_of_its_two_operands(op: str) -> None:
    example = EXAMPLES[op]
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    [shifted] = run(example, 4 * x, w / 4)
    np.testing.assert_array_equal(result, shifted)
    [changed] = run(example, 4 * x, w)
    assert not np.array_equal(result, changed)


@pytest.mark.parametrize("op", [op for op in rows(Meaning.MATMUL) if op != "Attention"])
def test_a_matmul_is_linear_in_each_of_its_two_operands(op: str) -> None:
    example = EXAMPLES[op]
    x, w = operand(example), data(example, "w", seed=1)
    assert w is not None
    [result] = run(example, x, w)
    assert np.abs(result).min() > 0
    for double in (run(example, 2 * x, w), run(example, x, 2 * w)):
        np.testing.assert_array_equal(double[0], 2 * result)
    for zero in (run(example, 0 * x, w), run(example, x, 0 * w)):
        assert not zero[0].any()


@pytest.mark.parametrize("op", rows(Meaning.ACCUMULATING))
def test_an_accumulating_op_has_a_result_that_needs_many_elements(op: str) -> None:
    example = subject(op, Meaning.ACCUMULATING)
    name = "w" if example.w else "x"
    summed = data(example, name)
    assert summed is not None
    summed = np.abs(summed) + np.float32(0.5)
    assert summed.size >= 5
    fixed = np.ones(example.shape("x"), np.float32)

    def result(values: Array) -> Array:
        first = run(example, fixed, values) if name == "w" else run(example, values)
        return first[0].reshape(-1)

    before = result(summed)
    always_changed = np.ones(before.shape, bool)
    for index in range(summed.size):
        other = summed.copy()
        other.flat[index] *= 2
        always_changed &= result(other) != before
    assert always_changed.any()


def error(before: Array, after: Array) -> tuple[float, float]:
    """Absolute and relative error of the first element."""
    difference = abs(float(before.flat[0]) - float(after.flat[0]))
    return difference, difference / abs(float(before.flat[0]))


AMPLIFIED = {
    "Log": 1.0007,
    "Reciprocal": 1e-7,
    "Tan": 1.5704,
    "Sinh": 80.02,
    "Cosh": 80.02,
    "Acosh": 1.0007,
    "Atanh": 0.9999,
    "Exp": 80.02,
    "Pow": 1.0004,
}


@pytest.mark.parametrize("op", rows(Meaning.AMPLIFYING))
def test_an_amplifying_op_magnifies_what_rounding_does(op: str) -> None:
    x = np.full(8, AMPLIFIED[op], np.float32)
    rounded = formats.round_to(x, FLOAT16)
    [before], [after] = run(EXAMPLES[op], x), run(EXAMPLES[op], rounded)
    absolute, relative = error(x, rounded)
    found = error(before, after)
    assert relative <= 2.0**-11 or op == "Reciprocal"
    assert found[0] > 1000 * absolute or found[1] > 10 * relative


def test_an_exponential_with_the_maximum_subtracted_magnifies_nothing() -> None:
    x = np.linspace(60, 80.02, 8, dtype=np.float32)
    rounded = formats.round_to(x, FLOAT16)
    [before], [after] = run(SAFE_EXP, x), run(SAFE_EXP, rounded)
    assert np.abs(before - after).max() <= 2 * np.abs(x - rounded).max()


def test_a_square_magnifies_little() -> None:
    x = np.full(8, AMPLIFIED["Pow"], np.float32)
    rounded = formats.round_to(x, FLOAT16)
    [before], [after] = run(SQUARE, x), run(SQUARE, rounded)
    assert error(before, after)[1] <= 3 * error(x, rounded)[1]


# An operand whose rounding to float16 makes the result jump.
JUMPS: Mapping[str, list[float]] = {
    "ArgMax": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "ArgMin": [-1, -1.0001, 0, 0, 0, 0, 0, 0],
    "TopK": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "Unique": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "Hardmax": [1, 1.0001, 0, 0, 0, 0, 0, 0],
    "NonZero": [1e-9] * 8,
    "Floor": [0.99999] * 8,
    "Ceil": [1.00001] * 8,
    "Round": [1.50001, 2.50001] * 4,
    "Sign": [1e-9] * 8,
    "Mod": [2.99999] * 8,
    "IsInf": [70000] * 8,
    "NonMaxSuppression": [0.50001],
    "RoiAlign": [0, 0, 2.0001, 2.0001],
    "MaxRoiPool": [0, 0, 0, 2.49999, 2.49999],
    "Bernoulli": [0.5001] * 200000,
    "Multinomial": [8.0, 8.0038],
}
COMPARED = [1.0001] * 8


@pytest.mark.parametrize("op", rows(Meaning.JUMPING))
def test_a_jumping_ops_result_jumps_when_its_operand_is_rounded(op: str) -> None:
    example = EXAMPLES[op]
    x = np.array(JUMPS.get(op, COMPARED), np.float32).reshape(example.shape("x"))
    rounded = formats.round_to(x, FLOAT16)
    runner.cache_clear()  # a generator of random numbers goes on where the last run ended
    before = run(example, x)
    runner.cache_clear()
    after = run(example, rounded)
    assert any(jumps(a, b, np.abs(x - rounded)) for a, b in zip(before, after, strict=True))


def jumps(before: Array, after: Array, moved: Array) -> bool:
    if before.shape != after.shape:
        return True
    if before.dtype != np.float32:
        return not np.array_equal(before, after)
    return float(np.abs(before - after).max()) > 100 * float(moved.max())


@pytest.mark.parametrize("op", rows(Meaning.INTEGERS))
def test_whole_operands_give_whole_results(op: str) -> None:
    example, generator = EXAMPLES[op], np.random.default_rng(0)
    for _ in range(20):
        x, w = generator.integers(-1000, 1000, (2, 8)).astype(np.float32)
        [result] = run(example, x, w if example.w else None)
        np.testing.assert_array_equal(result, np.rint(result))


@pytest.mark.parametrize("op", rows(Meaning.ELEMENTWISE))
def test_an_elementwise_ops_result_element_depends_on_its_own_operand_element(op: str) -> None:
    example = EXAMPLES[op]
    x, w = np.abs(operand(example)) + np.float32(0.25), data(example, "w", seed=1)
    if w is not None:
        w = np.abs(w) + np.float32(0.25)
    [before] = run(example, x, w)
    changed = np.zeros(8, bool)
    for name in ("x", "w") if w is not None else ("x",):
        for index in range(8):
            feeds = {"x": x.copy(), "w": None if w is None else w.copy()}
            values = feeds[name]
            assert values is not None
            values[index] = 7.6
            first = feeds["x"]
            assert first is not None
            [after] = run(example, first, feeds["w"])
            others = np.arange(8) != index
            np.testing.assert_array_equal(after[others], before[others])
            changed[index] |= after[index] != before[index]
    assert changed.all()


@pytest.mark.parametrize("op", rows(Meaning.BOUNDED))
def test_a_bounded_ops_result_is_moderate_however_large_its_operand(op: str) -> None:
    example = EXAMPLES[op]
    squares = op.endswith("Normalization")  # which leave float32's range beyond 1e19
    for magnitude in (1.0, 1e5, 1e10, 1e18) if squares else (1.0, 1e5, 1e18, 1e30):
        x = operand(example) * np.float32(magnitude)
        [result] = run(example, x)
        assert np.isfinite(result).all()
        assert np.abs(result).max() <= 10


@pytest.mark.parametrize("op", rows(Meaning.LIMITING))
def test_a_limit_out_of_range_limits_nothing(op: str) -> None:
    limits = "float l = {-3e38}, float h = {3e38}"
    infinite = "float l = {-inf}, float h = {inf}"
    node = {"Clip": "Clip (x, l, h)", "Min": "Min (x, h)", "Max": "Max (l, x)"}[op]
    finite, beyond = (Example(node, x="8", constants=text) for text in (limits, infinite))
    x = operand(finite) * np.float32(1000)
    np.testing.assert_array_equal(run(finite, x)[0], x)
    np.testing.assert_array_equal(run(beyond, x)[0], x)


@pytest.mark.parametrize("op", rows(Meaning.PERIODIC))
def test_a_periodic_op_makes_much_of_the_rounding_of_a_large_operand(op: str) -> None:
    x = np.full((4, 4), 10003.0, np.float32)
    rounded = formats.round_to(x, FLOAT16)
    assert error(x, rounded)[1] < 2.0**-11
    [before], [after] = run(EXAMPLES[op], x), run(EXAMPLES[op], rounded)
    assert error(before, after)[0] > 0.1


@pytest.mark.parametrize("op", rows(Meaning.COUNTING))
@pytest.mark.parametrize("narrow", [FLOAT16, BFLOAT16], ids=str)
def test_a_counting_op_counts_beyond_what_a_narrow_format_tells_apart(
    op: str, narrow: formats.Format
) -> None:
    [result] = run(EXAMPLES[op], np.array(0, np.float32))
    np.testing.assert_array_equal(result, np.arange(5000))
    assert np.unique(formats.round_to(result, narrow)).size < result.size


@pytest.mark.parametrize("op", rows(Meaning.QUANTISING))
def test_a_quantiser_goes_to_integers_and_back_by_a_float32_scale(op: str) -> None:
    x = np.linspace(-4, 5, 8, dtype=np.float32)
    if op == "DynamicQuantizeLinear":
        quantised, scale, zero = run(EXAMPLES[op], x)
        assert [quantised.dtype.name, scale.dtype.name] == ["uint8", "float32"]
        back = (quantised.astype(np.float32) - zero) * scale
        assert np.abs(back - x).max() <= scale
    elif op == "QuantizeLinear":
        [quantised] = run(EXAMPLES[op], x)
        assert quantised.dtype == np.int8
        assert np.abs(quantised * np.float32(0.5) - x).max() <= 0.25
    else:
        [back] = run(EXAMPLES[op], x)
        assert back.dtype == np.float32
        np.testing.assert_array_equal(2 * back, np.rint(2 * x))
