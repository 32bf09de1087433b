"""Small models for what converters get wrong about numbers: too large, too small, too many."""

__all__ = ["MODELS"]

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .built import Array, Built, Sample, build, normal

_FILES = Path(__file__).parents[1] / "files"


def _float_index() -> Built:
    """Positions in float that become indices: float16 counts to 2048, bfloat16 to 256."""
    rng = np.random.default_rng(41)
    text = """
    agraph (float[n] where, float[n,6] x) => (float[n,6] y, int64[n] index) {
       place = Mul (where, rows)
       whole = Floor (place)
       inside = Clip (whole, first, last)
       index = Cast <to = 7> (inside)
       row = Gather <axis = 0> (table, index)
       sum = Add (row, x)
       y = MatMul (sum, kernel)
    }
    """
    weights: dict[str, Array] = {
        "rows": np.asarray(6000, np.float32),
        "first": np.asarray(0, np.float32),
        "last": np.asarray(5999, np.float32),
        "table": normal(rng, 6000, 6),
        "kernel": normal(rng, 6, 6, scale=0.3),
    }
    return build(
        text,
        weights,
        lambda rng, _k: {"where": rng.random(20, np.float32), "x": normal(rng, 20, 6)},
    )


def _range_traps() -> Built:
    """Squares that overflow, a floor of 1e-10 under a Log, an epsilon of 1e-8, a mask of -1e9."""
    rng = np.random.default_rng(42)
    text = """
    agraph (float[n,48] x, float[n,48] seen)
        => (float[n,48] share, float[n,48] logged, float[n,48] unit, float[n,5] y) {
       grown = Mul (x, large)
       squares = Mul (grown, grown)
       sum = ReduceSum <keepdims = 1> (squares, last)
       norm = Sqrt (sum)
       above = Add (norm, epsilon)
       unit = Div (grown, above)
       floored = Max (x, floor)
       logged = Log (floored)
       logits = Mul (x, larger)
       hidden = Sub (one, seen)
       penalty = Mul (hidden, mask)
       masked = Add (logits, penalty)
       share = Softmax <axis = -1> (masked)
       product = MatMul (unit, kernel)
       y = Add (product, bias)
    }
    """
    weights: dict[str, Array] = {
        "large": np.asarray(2000, np.float32),
        "last": np.array([1], np.int64),
        "epsilon": np.asarray(1e-8, np.float32),
        "floor": np.asarray(1e-10, np.float32),
        "larger": np.asarray(2e5, np.float32),
        "one": np.asarray(1, np.float32),
        "mask": np.asarray(-1e9, np.float32),
        "kernel": normal(rng, 48, 5),
        "bias": normal(rng, 5),
    }

    def sample(rng: np.random.Generator, k: int) -> Sample:
        seen = np.ones((3 + k, 48), np.float32)
        seen[:, 40:] = 0
        return {"x": normal(rng, 3 + k, 48), "seen": seen}

    return build(text, weights, sample)


def _reductions() -> Built:
    """Sums beyond 65504, running sums, and a variance as a difference of two large numbers."""
    text = """
    agraph (float[2,50000] x)
        => (float[2,1] sum, float[2,50000] running, float[2,1] mean, float[2,1] variance) {
       sum = ReduceSum <keepdims = 1> (x, last)
       running = CumSum (x, axis)
       moved = Add (x, offset)
       mean = ReduceMean <axes = [1], keepdims = 1> (moved)
       squares = Mul (moved, moved)
       power = ReduceMean <axes = [1], keepdims = 1> (squares)
       square = Mul (mean, mean)
       variance = Sub (power, square)
    }
    """
    weights: dict[str, Array] = {
        "last": np.array([1], np.int64),
        "axis": np.asarray(1, np.int64),
        "offset": np.asarray(80, np.float32),
    }
    return build(
        text, weights, lambda rng, _k: {"x": (1 + 2 * rng.random((2, 50000))).astype(np.float32)}
    )


_FACTOR = 2.0**18


def _digits_overflow() -> Built:
    """The packaged network, times 2^18 in the middle and divided by it later."""
    model = onnx.load(_FILES / "digits_resnet_ts.onnx")
    graph, value = model.graph, model.graph.node[-1].input[0]
    pool = next(node for node in graph.node if node.op_type == "GlobalAveragePool")
    index = list(graph.node).index(pool)
    inner = pool.input[0]
    graph.initializer.append(numpy_helper.from_array(np.asarray(_FACTOR, np.float32), "factor"))
    grow = helper.make_node("Mul", [inner, "factor"], [f"{inner}_grown"], name="grow")
    pool.input[0] = f"{inner}_grown"
    graph.node.insert(index, grow)
    shrink = helper.make_node("Div", [value, "factor"], [f"{value}_shrunk"], name="shrink")
    graph.node[-1].input[0] = f"{value}_shrunk"
    graph.node.insert(len(graph.node) - 1, shrink)
    onnx.checker.check_model(model)
    names = ("digits_resnet_ts.npz", "digits_resnet_ts.1.npz")
    samples = [dict(np.load(_FILES / name)) for name in names]
    labels = np.load(_FILES / "digits_resnet_ts.labels.npz")
    return Built(model, samples, [labels[name] for name in sorted(labels)])


MODELS: Mapping[str, Callable[[], Built]] = {
    "digits_overflow_ts": _digits_overflow,
    "edge_float_index": _float_index,
    "edge_range_traps": _range_traps,
    "edge_reductions": _reductions,
}
