"""Small graphs around one node each: one for every op in the table of meanings."""

import dataclasses
from collections.abc import Mapping

import onnx
import onnx.parser
import onnx_ir as ir

from onnxcast.policy import Meaning

__all__ = [
    "COUNTER_EXAMPLES",
    "EXAMPLES",
    "SAFE_EXP",
    "SCATTER_ADD",
    "SCATTER_ND_ADD",
    "SQUARE",
    "SUBJECTS",
    "Example",
]


@dataclasses.dataclass(frozen=True)
class Example:
    """A graph around one node.

    Attributes:
        node: The node, or the nodes with the one that matters last; results are named y, y2, …
        x: Shape of the operand x.
        w: Shape of the operand w; "" if there is none.
        constants: Initializers.
        opset: Opset version.
        ml: Version of ai.onnx.ml.
        results: Names of the graph outputs.
        reference: Run on onnx's reference evaluator, as onnxruntime lacks the op.
    """

    node: str
    x: str = "4,4"
    w: str = ""
    constants: str = ""
    opset: int = 21
    ml: int = 3
    results: str = "y"
    reference: bool = False

    def proto(self) -> onnx.ModelProto:
        operands = f"float[{self.x}] x" + (f", float[{self.w}] w" if self.w else "")
        return onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["": {self.opset}, "com.microsoft": 1,'
            f' "ai.onnx.ml": {self.ml}]> '
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


ZEROS = ", ".join("0" * 8)
ONES = ", ".join("1" * 8)
INDEX = "int64[1] s = {0}"

_LEAVES = """nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],
    nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [1.00005, 0.0, 0.0],
    nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0]"""

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
    # Thresholds.
    "ai.onnx.ml.Binarizer": Example("ai.onnx.ml.Binarizer <threshold = 1.00005> (x)", x="8"),
    "ai.onnx.ml.TreeEnsemble": Example(
        """ai.onnx.ml.TreeEnsemble <n_targets = 1, tree_roots = [0], nodes_featureids = [0],
        nodes_splits = float[1] {1.00005}, nodes_modes = uint8[1] {0}, nodes_truenodeids = [0],
        nodes_trueleafs = [1], nodes_falsenodeids = [1], nodes_falseleafs = [1],
        leaf_targetids = [0, 0], leaf_weights = float[2] {0, 1}> (x)""",
        x="8,1",
        ml=5,
    ),
    "ai.onnx.ml.TreeEnsembleRegressor": Example(
        f"""ai.onnx.ml.TreeEnsembleRegressor <{_LEAVES}, n_targets = 1, target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [0.0, 1.0]> (x)""",
        x="8,1",
    ),
    "ai.onnx.ml.TreeEnsembleClassifier": Example(
        f"""y, y2 = ai.onnx.ml.TreeEnsembleClassifier <{_LEAVES}, classlabels_int64s = [0, 1],
        class_treeids = [0, 0], class_nodeids = [1, 2], class_ids = [0, 1],
        class_weights = [1.0, 1.0]> (x)""",
        x="8,1",
        results="y, y2",
    ),
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
    "com.microsoft.FusedMatMul": Example("com.microsoft.FusedMatMul (x, w)", w="4,3"),
    "com.microsoft.TransposeMatMul": Example("com.microsoft.TransposeMatMul (x, w)", w="4,3"),
    "com.microsoft.FusedConv": Example("com.microsoft.FusedConv (x, w)", x="1,2,4,4", w="3,2,2,2"),
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
    "com.microsoft.SkipLayerNormalization": Example(
        "com.microsoft.SkipLayerNormalization (x, s, g)",
        x="1,1,8",
        constants=f"float[1,1,8] s = {{{ZEROS}}}, float[8] g = {{{ONES}}}",
    ),
    "com.microsoft.SkipSimplifiedLayerNormalization": Example(
        "com.microsoft.SkipSimplifiedLayerNormalization (x, s, g)",
        x="1,1,8",
        constants=f"float[1,1,8] s = {{{ZEROS}}}, float[8] g = {{{ONES}}}",
    ),
    "com.microsoft.EmbedLayerNormalization": Example(
        "y, m = com.microsoft.EmbedLayerNormalization (i, , x, p, , g, b)",
        x="1,8",
        constants=f"int32[1,1] i = {{0}}, float[1,8] p = {{{ZEROS}}}, "
        f"float[8] g = {{{ONES}}}, float[8] b = {{{ZEROS}}}",
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
    "Sum": Example("Sum (x, w)", x="8", w="8"),
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
