"""The one table of what ops mean for precision, a cause per row.

Legality never comes from here: that is the schema's. A row says how an op treats rounded numbers:
moves them, multiplies and accumulates them, jumps on them. Sources of the rows are the lists of
PyTorch's autocast, TVM, TensorFlow and Neuron, reduced to causes.
"""

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import NamedTuple

import onnx_ir as ir

from onnxcast.graph.edit import constant_of
from onnxcast.graph.walk import op_name

__all__ = ["MEANINGS", "Meaning", "Row", "has_meaning", "meanings_of", "means_by_op", "multiplied"]


class Meaning(enum.Enum):
    """A way in which an op treats numbers; the value is the cause printed in reports."""

    CARRIER = "moves elements without looking at them"
    METADATA = "reads a shape, not numbers"
    MATMUL = "multiplies two operands and sums the products"
    ACCUMULATING = "sums over many elements, where a narrow sum overflows or stalls"
    AMPLIFYING = "magnifies the error of small or large operands without bound"
    JUMPING = "gives a result that jumps when an operand is rounded"
    INTEGERS = "keeps integer-valued operands integer-valued"
    ELEMENTWISE = "computes each element from one element of each operand"
    BOUNDED = "gives results of moderate size, however large its operand"
    LIMITING = "limits an operand by another, so a limit out of range is harmless data"
    PERIODIC = "wraps its operand, so the error of a large operand is magnified"
    ADDING = "adds its operands, so that a small one hardly counts beside a large one"
    DIVIDING = "divides by its second operand, so a divisor that vanishes gives infinity"
    EXPONENTIAL = "takes differences of its operand's elements to the exponent"
    COUNTING = "counts in floating point"
    QUANTISING = "turns numbers into integers and back by a float32 scale"


@dataclasses.dataclass(frozen=True)
class Row:
    """One op has one meaning, always or when a condition on the node holds.

    `multiplied` says how many first operands a matmul-like op multiplies; others are added.
    """

    op: str
    meaning: Meaning
    when: Callable[[ir.Node], bool] | None = None
    multiplied: int = 2


def _attribute_is(name: str, value: str) -> Callable[[ir.Node], bool]:
    def holds(node: ir.Node) -> bool:
        attribute = node.attributes.get(name)
        return attribute is None or (not attribute.is_ref() and attribute.value == value)

    return holds


def _differs(name: str, value: str) -> Callable[[ir.Node], bool]:
    same = _attribute_is(name, value)
    return lambda node: not same(node)


def _two_operands(node: ir.Node) -> bool:
    return len(node.inputs) == 2


def _no_max_subtracted(node: ir.Node) -> bool:
    """Whether an exponential's operand is anything but ``x - ReduceMax(x)``."""
    source = node.inputs[0]
    producer = None if source is None else source.producer()
    if producer is None or op_name(producer) != "Sub":
        return True
    operand = producer.inputs[1]
    subtracted = None if operand is None else operand.producer()
    return subtracted is None or op_name(subtracted) != "ReduceMax"


def _square_or_cube(node: ir.Node) -> bool:
    """Whether a power's exponent is a small positive whole number known before the run."""
    exponent = constant_of(node.inputs[1])
    return exponent is not None and exponent.size == 1 and exponent.numpy().item() in (1, 2, 3)


def _not_square_or_cube(node: ir.Node) -> bool:
    return not _square_or_cube(node)


def _rows(meaning: Meaning, *ops: str) -> tuple[Row, ...]:
    return tuple(Row(op, meaning) for op in ops)


MEANINGS: tuple[Row, ...] = (
    *_rows(Meaning.CARRIER, "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
    *_rows(Meaning.CARRIER, "Transpose", "Slice", "Split", "Concat", "Expand", "Tile"),
    *_rows(Meaning.CARRIER, "Gather", "GatherElements", "GatherND", "Compress", "Scatter"),
    *_rows(Meaning.CARRIER, "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Trilu"),
    *_rows(Meaning.CARRIER, "Pad", "CenterCropPad", "Where"),
    Row("ScatterElements", Meaning.CARRIER, _attribute_is("reduction", "none")),
    Row("ScatterND", Meaning.CARRIER, _attribute_is("reduction", "none")),
    *_rows(Meaning.METADATA, "Shape", "Size"),
    *_rows(Meaning.MATMUL, "MatMul", "Gemm", "Conv", "ConvTranspose"),
    Row("Attention", Meaning.MATMUL, multiplied=3),
    *_rows(Meaning.MATMUL, "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul"),
    *_rows(Meaning.MATMUL, "com.microsoft.FusedConv"),
    Row("Einsum", Meaning.MATMUL, _two_operands),
    *_rows(Meaning.ACCUMULATING, "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2"),
    *_rows(Meaning.ACCUMULATING, "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
    *_rows(Meaning.ACCUMULATING, "CumSum", "CumProd", "GlobalLpPool"),
    *_rows(Meaning.ACCUMULATING, "LpPool", "LpNormalization", "InstanceNormalization", "LRN"),
    *_rows(Meaning.ACCUMULATING, "MeanVarianceNormalization", "DFT", "STFT"),
    *_rows(Meaning.ACCUMULATING, "com.microsoft.SkipLayerNormalization"),
    *_rows(Meaning.ACCUMULATING, "com.microsoft.SkipSimplifiedLayerNormalization"),
    *_rows(Meaning.ACCUMULATING, "com.microsoft.EmbedLayerNormalization"),
    *_rows(Meaning.ACCUMULATING, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
    Row("ScatterElements", Meaning.ACCUMULATING, _differs("reduction", "none")),
    Row("ScatterND", Meaning.ACCUMULATING, _differs("reduction", "none")),
    *_rows(Meaning.AMPLIFYING, "Log", "Reciprocal", "Tan", "Sinh", "Cosh", "Acosh", "Atanh"),
    Row("Exp", Meaning.AMPLIFYING, _no_max_subtracted),
    Row("Pow", Meaning.AMPLIFYING, _not_square_or_cube),
    *_rows(Meaning.JUMPING, "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *_rows(Meaning.JUMPING, "ArgMax", "ArgMin", "TopK", "Unique", "Hardmax", "NonZero"),
    *_rows(Meaning.JUMPING, "Floor", "Ceil", "Round", "Sign", "Mod", "IsInf"),
    *_rows(Meaning.JUMPING, "NonMaxSuppression", "RoiAlign", "MaxRoiPool"),
    *_rows(Meaning.JUMPING, "Bernoulli", "Multinomial"),
    *_rows(Meaning.QUANTISING, "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
    *_rows(Meaning.INTEGERS, "Add", "Sub", "Mul", "Neg", "Floor", "Ceil", "Round", "Mod"),
    *_rows(Meaning.ELEMENTWISE, "Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt", "Pow"),
    *_rows(Meaning.ELEMENTWISE, "Reciprocal", "Floor", "Ceil", "Round", "Mod", "Exp", "Log"),
    *_rows(Meaning.ELEMENTWISE, "Min", "Max", "Clip"),
    *_rows(Meaning.BOUNDED, "Softmax", "Sigmoid", "Tanh", "Erf", "HardSigmoid", "Softsign"),
    *_rows(Meaning.BOUNDED, "Sin", "Cos", "LayerNormalization", "InstanceNormalization"),
    *_rows(Meaning.BOUNDED, "GroupNormalization", "RMSNormalization", "LpNormalization"),
    *_rows(Meaning.LIMITING, "Clip", "Min", "Max"),
    *_rows(Meaning.PERIODIC, "Sin", "Cos"),
    *_rows(Meaning.ADDING, "Add", "Sub", "Sum"),
    *_rows(Meaning.DIVIDING, "Div"),
    *_rows(Meaning.EXPONENTIAL, "Softmax", "Exp"),
    *_rows(Meaning.JUMPING, "ai.onnx.ml.Binarizer", "ai.onnx.ml.TreeEnsemble"),
    *_rows(
        Meaning.JUMPING, "ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.TreeEnsembleRegressor"
    ),
    *_rows(Meaning.COUNTING, "Range"),
)


class _Told(NamedTuple):
    """What the table says of one op.

    Attributes:
        always: The meanings that it has in any case.
        sometimes: Rows with a condition.
        multiplied: As of its row, if it has one as a matmul-like op, else 0.
    """

    always: tuple[Meaning, ...]
    sometimes: tuple[Row, ...]
    multiplied: int


@functools.cache
def _told_of(domain: str, op_type: str) -> _Told:
    name = op_type if domain in ("", "ai.onnx") else f"{domain}.{op_type}"
    rows = [row for row in MEANINGS if row.op == name]
    always = tuple(row.meaning for row in rows if row.when is None)
    sometimes = tuple(row for row in rows if row.when is not None)
    known = (row.multiplied for row in rows if row.meaning is Meaning.MATMUL)
    return _Told(always, sometimes, next(known, 0))


def meanings_of(node: ir.Node) -> tuple[Meaning, ...]:
    """All that `node` means by the table."""
    always, sometimes, _ = _told_of(node.domain, node.op_type)
    if not sometimes:
        return always
    held = (row.meaning for row in sometimes if row.when is not None and row.when(node))
    return (*always, *held)


def has_meaning(node: ir.Node, meaning: Meaning) -> bool:
    """Whether `node` has `meaning` by the table."""
    always, sometimes, _ = _told_of(node.domain, node.op_type)
    if meaning in always:
        return True
    for row in sometimes:
        if row.meaning is meaning and row.when is not None and row.when(node):
            return True
    return False


def means_by_op(node: ir.Node) -> bool:
    """Whether what `node` means follows from its op alone, and no row has a condition."""
    return not _told_of(node.domain, node.op_type).sometimes


def multiplied(node: ir.Node) -> int:
    """How many first operands a matmul-like `node` multiplies; 0 for any other."""
    count = _told_of(node.domain, node.op_type).multiplied
    return count if count and has_meaning(node, Meaning.MATMUL) else 0
