"""What mutations begin with: small models of every kind, and ONNX's operator suite."""

import warnings
from collections.abc import Iterator

import onnx

from tests.networks import network

__all__ = ["operator_suite", "seeds"]

_LARGEST = 3000

_TEXTS = (
    # A block of a transformer, with a mask and statistics.
    """<ir_version: 9, opset_import: ["" : 18]>
    block (float[b,s,8] x, bool[b,s] mask) => (float[b,s,8] y)
    <float[8,8] w = {1}, float low = {-1e30}, float zero = {0.0}, float e = {1e-5}> {
        q = MatMul (x, w)
        k = Transpose <perm = [0, 2, 1]> (q)
        scores = MatMul (q, k)
        axes = Constant <value_ints = [1]> ()
        m = Unsqueeze (mask, axes)
        masked = Where (m, scores, low)
        p = Softmax <axis = -1> (masked)
        o = MatMul (p, x)
        mean = ReduceMean <keepdims = 1> (o)
        d = Sub (o, mean)
        v = Mul (d, d)
        s = Add (v, e)
        r = Sqrt (s)
        y = Div (d, r)
    }""",
    # Control flow with captured values.
    """<ir_version: 8, opset_import: ["" : 17]>
    flow (float[4] x, bool c, int64 n) => (float[4] y, float[?,4] t)
    <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
        a = If (c) <
            then_branch = then () => (float[4] p) { p = Mul (x, w) },
            else_branch = other () => (float[4] q) { q = Add (x, w) }
        >
        y, t = Loop (n, c, a) <
            body = step (int64 i, bool go, float[4] s) => (bool on, float[4] next, float[4] seen)
            { on = Identity (go) next = Add (s, w) seen = Relu (next) }
        >
    }""",
    # Functions, one called by another.
    """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    calls (float[2,4] x) => (float[2,4] y) { h = local.Outer <k: float = 2.0> (x) y = Relu (h) }
    <domain: "local", opset_import: ["" : 17, "local" : 1]>
    Outer <k> (a) => (b) { c = Constant <value_float: float = @k> () d = Mul (a, c)
        b = local.Inner (d) }
    <domain: "local", opset_import: ["" : 17]>
    Inner (a) => (b) { b = Tanh (a) }""",
    # Casts one after another, also to what is an output.
    """<ir_version: 9, opset_import: ["" : 19]>
    casts (float16[4] x) => (float16[4] y, bfloat16[4] z, int64[4] i) {
        a = Cast <to = 1> (x) y = Cast <to = 10> (a) z = Cast <to = 16> (a)
        b = Cast <to = 17, saturate = 0> (a) c = Cast <to = 1> (b) i = Cast <to = 7> (c)
    }""",
    # Sequences, optional operands, several results.
    """<ir_version: 8, opset_import: ["" : 17]>
    mixed (float[3,4] x) => (float[3,4] y, float[3,2] l)
    <float low = {-1.0}, int64[2] parts = {2, 2}> {
        s = SequenceConstruct (x, x)
        z = Constant <value_int = 0> ()
        e = SequenceAt (s, z)
        y = Clip (e, low, )
        l, r = Split <axis = 1> (x, parts)
    }""",
    # Quantised weights.
    """<ir_version: 9, opset_import: ["" : 19]>
    quantised (float[2,4] x) => (float[2,2] y)
    <int8[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float scale = {0.1}, int8 zero = {0}> {
        d = DequantizeLinear (w, scale, zero)
        y = MatMul (x, d)
    }""",
)


def seeds() -> Iterator[bytes]:
    """Yield the models that are made here; the last has its weights in ``w.data``."""
    for text in _TEXTS:
        model = onnx.parser.parse_model(text)
        yield model.SerializeToString()
    small = network(1, [])
    for index, tensor in enumerate(small.graph.initializer):
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.data")
        tensor.external_data.add(key="offset", value=str(1024 * index))
    yield small.SerializeToString()


def operator_suite() -> Iterator[bytes]:
    """Yield one small model for each combination of ops in ONNX's operator suite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes overflows on purpose
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases()
    seen = set()
    for model in (case.model for case in cases if case.model is not None):
        ops = tuple(node.op_type for node in model.graph.node)
        data = model.SerializeToString()
        if ops not in seen and len(data) <= _LARGEST:
            seen.add(ops)
            yield data
