"""Small models for what converters get wrong about types: what makes some, what must not follow."""

__all__ = ["MODELS"]

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from .built import Array, Built, build, normal


def _resize_scales() -> Built:
    """Scales and regions of a Resize stay float32, also where they are data for others."""
    rng = np.random.default_rng(31)
    text = """
    agraph (float[1,2,h,w] x) => (float[1,5,a,b] y, float[4] twice) {
       c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, k1)
       r = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (c, , scales)
       s = Resize <mode = "nearest", nearest_mode = "ceil"> (r, region, scales)
       y = Conv <kernel_shape = [1, 1]> (s, k2)
       twice = Add (scales, scales)
    }
    """
    weights = {
        "k1": normal(rng, 6, 2, 3, 3, scale=0.2),
        "k2": normal(rng, 5, 6, 1, 1, scale=0.3),
        "scales": np.array([1, 1, 2, 1.25], np.float32),
        "region": np.array([], np.float32),
    }
    return build(text, weights, lambda rng, k: {"x": normal(rng, 1, 2, 8 + 4 * k, 12)}, opset=13)


def _float_makers() -> Built:
    """Ops whose attribute says float32: Cast, ConstantOfShape, EyeLike, Range, OneHot, CastLike."""
    rng = np.random.default_rng(32)
    text = """
    agraph (int64[n] words, float[n,6] x) => (float[n,6] y, float[n,6] hot, float[6,6] mixed) {
       counted = Cast <to = 1> (words)
       column = Unsqueeze (counted, last)
       extent = Shape (x)
       filled = ConstantOfShape <value = float[1] {0.75}> (extent)
       a = Add (x, filled)
       b = Mul (a, column)
       three = Constant <value_float = 3.0> ()
       list = Constant <value_floats = [1.0, 0.5, 2.0, 0.25, 4.0, 0.125]> ()
       c = Sub (b, three)
       d = Mul (c, list)
       steps = Range (begin, end, step)
       e = Add (d, steps)
       hot = OneHot <axis = 1> (words, width, pair)
       like = CastLike (words, x)
       row = Unsqueeze (like, last)
       f = Add (e, row)
       y = Add (f, hot)
       unit = EyeLike <dtype = 1> (kernel)
       mixed = MatMul (unit, kernel)
    }
    """
    weights: dict[str, Array] = {
        "last": np.array([1], np.int64),
        "begin": np.asarray(0, np.float32),
        "end": np.asarray(6, np.float32),
        "step": np.asarray(1, np.float32),
        "width": np.asarray(6, np.int64),
        "pair": np.array([-0.5, 0.5], np.float32),
        "kernel": normal(rng, 6, 6),
    }
    return build(
        text,
        weights,
        lambda rng, k: {"words": rng.integers(0, 6, 4 + k), "x": normal(rng, 4 + k, 6)},
    )


def _ir3_opset8() -> Built:
    """Initializers that are graph inputs too, and attributes that later opsets made inputs."""
    rng = np.random.default_rng(33)
    weights = {
        "kernel": normal(rng, 5, 2, 3, 3, scale=0.2),
        "gain": (rng.random(5) + 0.5).astype(np.float32),
        "bias": normal(rng, 5),
        "mean": normal(rng, 5, scale=0.1),
        "spread": (rng.random(5) + 0.5).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["c", "gain", "bias", "mean", "spread"], ["n"]),
        helper.make_node("Clip", ["n"], ["k"], min=0.0, max=4.0),
        helper.make_node("AveragePool", ["k"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Slice", ["p"], ["s"], axes=[1], starts=[1], ends=[4]),
        helper.make_node("Flatten", ["s"], ["y"]),
    ]
    tensor = helper.make_tensor_value_info
    inputs = {"x": [1, 2, 10, 10], **{name: array.shape for name, array in weights.items()}}
    graph = helper.make_graph(
        nodes,
        "old",
        [tensor(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [tensor("y", onnx.TensorProto.FLOAT, [1, 48])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    samples = [{"x": normal(np.random.default_rng(k), 1, 2, 10, 10)} for k in range(2)]
    return Built(model, samples)


def _mixed_dtypes() -> Built:
    """Parts in float64 and float16 with Casts between them, which are the model's own."""
    rng = np.random.default_rng(34)
    text = """
    agraph (double[n,6] x, float16[n,6] h) => (double[n,6] y, float16[n,3] z, float[n,6] s) {
       exact = MatMul (x, wide)
       single = Cast <to = 1> (exact)
       limited = Sigmoid (single)
       raised = Cast <to = 1> (h)
       s = Sub (limited, raised)
       product = MatMul (s, kernel)
       half = Cast <to = 10> (product)
       small = MatMul (half, narrow)
       z = Tanh (small)
       back = Cast <to = 11> (s)
       y = Add (back, exact)
    }
    """
    weights = {
        "wide": rng.standard_normal((6, 6)),
        "kernel": normal(rng, 6, 6),
        "narrow": normal(rng, 6, 3).astype(np.float16),
    }
    return build(
        text,
        weights,
        lambda rng, k: {
            "x": rng.standard_normal((2 + k, 6)),
            "h": normal(rng, 2 + k, 6).astype(np.float16),
        },
    )


def _qdq() -> Built:
    """A quantised Conv beside a float one: scales stay float32, and no Cast parts a pair."""
    rng = np.random.default_rng(35)
    text = """
    agraph (float[1,2,h,w] x) => (float[1,6,h,w] y) {
       q = QuantizeLinear (x, s1, z1)
       d = DequantizeLinear (q, s1, z1)
       k = DequantizeLinear <axis = 0> (kernel, s2, z2)
       c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (d, k, bias)
       r = QuantizeLinear (c, s3, z3)
       e = DequantizeLinear (r, s3, z3)
       f = Conv <kernel_shape = [1, 1]> (x, plain)
       g = Tanh (f)
       y = Add (e, g)
    }
    """
    weights: dict[str, Array] = {
        "s1": np.asarray(0.025, np.float32),
        "z1": np.asarray(120, np.uint8),
        "kernel": rng.integers(-127, 128, (6, 2, 3, 3)).astype(np.int8),
        "s2": (0.002 + 0.003 * rng.random(6)).astype(np.float32),
        "z2": np.zeros(6, np.int8),
        "bias": normal(rng, 6, scale=0.1),
        "s3": np.asarray(0.04, np.float32),
        "z3": np.asarray(128, np.uint8),
        "plain": normal(rng, 6, 2, 1, 1),
    }
    return build(text, weights, lambda rng, k: {"x": normal(rng, 1, 2, 7, 5 + k)}, opset=13)


def _sequence() -> Built:
    """Sequences of tensors: their elements agree in type, whoever made them."""
    rng = np.random.default_rng(36)
    text = """
    agraph (float[n,7] x, float[n,7] z) => (float[m,7] y, float[n,7] picked, float[k,7] part) {
       product = MatMul (x, kernel)
       moved = Sub (z, shift)
       both = SequenceConstruct (moved, product)
       limited = Sigmoid (product)
       three = SequenceInsert (both, limited)
       picked = SequenceAt (three, two)
       y = ConcatFromSequence <axis = 0> (three)
       parts = SplitToSequence <axis = 0> (y, three_rows)
       part = SequenceAt (parts, zero)
    }
    """
    weights: dict[str, Array] = {
        "kernel": normal(rng, 7, 7),
        "shift": normal(rng, 7),
        "zero": np.asarray(0, np.int64),
        "two": np.asarray(2, np.int64),
        "three_rows": np.asarray(3, np.int64),
    }
    return build(
        text, weights, lambda rng, k: {"x": normal(rng, 3 + k, 7), "z": normal(rng, 3 + k, 7)}
    )


def _ml_ops() -> Built:
    """Operators of ai.onnx.ml, which take float32 alone, among others."""
    rng = np.random.default_rng(37)

    def floats(count: int) -> list[float]:
        return [float(value) for value in rng.standard_normal(count)]

    nodes = [
        helper.make_node(
            "Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", offset=floats(5), scale=floats(5)
        ),
        helper.make_node("MatMul", ["scaled", "kernel"], ["product"]),
        helper.make_node("Tanh", ["product"], ["hidden"]),
        helper.make_node(
            "LinearClassifier",
            ["hidden"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            classlabels_ints=[0, 1, 2, 3],
            coefficients=floats(36),
            intercepts=floats(4),
            multi_class=1,
            post_transform="SOFTMAX",
        ),
        helper.make_node("Sub", ["scores", "half"], ["y"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "classifier",
        [tensor("x", onnx.TensorProto.FLOAT, ["n", 5])],
        [
            tensor("label", onnx.TensorProto.INT64, ["n"]),
            tensor("y", onnx.TensorProto.FLOAT, ["n", 4]),
        ],
        [
            onnx.numpy_helper.from_array(normal(rng, 5, 9), "kernel"),
            onnx.numpy_helper.from_array(np.asarray(0.5, np.float32), "half"),
        ],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return Built(model, [{"x": normal(np.random.default_rng(k), 6, 5)} for k in range(2)])


MODELS: Mapping[str, Callable[[], Built]] = {
    "edge_float_makers": _float_makers,
    "edge_ir3_opset8": _ir3_opset8,
    "edge_mixed_dtypes": _mixed_dtypes,
    "edge_ml_ops": _ml_ops,
    "edge_qdq": _qdq,
    "edge_resize_scales": _resize_scales,
    "edge_sequence": _sequence,
}
