"""Small models for what converters get wrong about scopes, names and who reads what."""

__all__ = ["MODELS"]

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from .built import Array, Built, build, normal


def _local_functions() -> Built:
    """A function that calls another, each called with several values of its attribute."""
    rng = np.random.default_rng(21)
    text = """
    agraph (float[n,12] x) => (float[n,6] y) {
       a = zoo.Layer <slope = 0.25> (x, k1, c1)
       b = zoo.Layer <slope = 0.05> (a, k2, c2)
       y = Gemm (b, k3, c3)
    }
    <domain: "zoo", opset_import: ["" : 17]>
    Bend <slope> (v) => (w) {
       bent = LeakyRelu <alpha: float = @slope> (v)
       square = Mul (bent, bent)
       tiny = Constant <value_float = 0.0001> ()
       above = Add (square, tiny)
       root = Sqrt (above)
       w = Div (bent, root)
    }
    <domain: "zoo", opset_import: ["" : 17, "zoo" : 1]>
    Layer <slope> (v, kernel, shift) => (w) {
       product = MatMul (v, kernel)
       shifted = Add (product, shift)
       w = zoo.Bend <slope: float = @slope> (shifted)
    }
    """
    weights = {
        "k1": normal(rng, 12, 24, scale=0.3),
        "c1": normal(rng, 24),
        "k2": normal(rng, 24, 10, scale=0.3),
        "c2": normal(rng, 10),
        "k3": normal(rng, 10, 6),
        "c3": normal(rng, 6),
    }
    return build(
        text,
        weights,
        lambda rng, k: {"x": normal(rng, 3 + k, 12)},
        ir_version=9,
        domains=', "zoo" : 1',
    )


def _captured_subgraph() -> Built:
    """Bodies that read values, inputs and initializers of the graph around them."""
    rng = np.random.default_rng(22)
    text = """
    agraph (float[n,10] x, bool upward, int64 rounds) => (float[n,10] y, float[n,10] state) {
       hidden = MatMul (x, kernel)
       start = If (upward) <
          then_branch = rise () => (float[n,10] up) { up = Add (hidden, shift) },
          else_branch = fall () => (float[n,10] down) {
             scaled = Mul (hidden, shift)
             down = MatMul (scaled, kernel)
          }
       >
       always = Constant <value = bool {1}> ()
       state = Loop (rounds, always, start) <
          body = turn (int64 count, bool going, float[n,10] before) => (bool on, float[n,10] next) {
             on = Identity (going)
             product = MatMul (before, kernel)
             limited = Tanh (product)
             next = Add (limited, hidden)
          }
       >
       y = Sub (state, shift)
    }
    """
    weights = {"kernel": normal(rng, 10, 10, scale=0.3), "shift": normal(rng, 10)}
    return build(
        text,
        weights,
        lambda rng, k: {
            "x": normal(rng, 4 + k, 10),
            "upward": np.array(k % 2 == 0),
            "rounds": np.array([4, 1][k], np.int64),
        },
    )


def _names() -> Built:
    """Names that a converter might take for its own, and names with odd characters."""
    rng = np.random.default_rng(23)
    layers = [
        ("MatMul", "w_cast_fp16", "y_cast"),
        ("Add", "x_float16", "y_cast_0"),
        ("Sigmoid", "", "y/cast:0"),
        ("MatMul", "w_init", "Zwölf 'x' \"y\""),
        ("Relu", "", "x_cast"),
        ("Mul", "x_float16", "x_cast_1"),
        ("MatMul", "w_init", "onnxcast_cast"),
    ]
    nodes, value = [], "x"
    for op, weight, result in layers:
        nodes.append(helper.make_node(op, [value, *filter(None, [weight])], [result], name=result))
        value = result
    nodes.append(helper.make_node("Identity", [value], ["y"], name="x_cast_0"))
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "x",
        [tensor("x", onnx.TensorProto.FLOAT, ["n", 9])],
        [tensor(name, onnx.TensorProto.FLOAT, ["n", 9]) for name in ("y", "y_cast")],
        [
            onnx.numpy_helper.from_array(array, name)
            for name, array in {
                "w_cast_fp16": normal(rng, 9, 9, scale=0.4),
                "x_float16": normal(rng, 9),
                "w_init": normal(rng, 9, 9, scale=0.4),
            }.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    return Built(model, [{"x": normal(np.random.default_rng(k), 4, 9)} for k in range(2)])


def _shared_weights() -> Built:
    """A tied table, two equal weights, one that nobody reads and one that is a graph output."""
    rng = np.random.default_rng(24)
    text = """
    agraph (int64[n] words, float[n,12] x)
        => (float[n,40] scores, float[12,12] first, float[n,12] s) {
       row = Gather (table, words)
       sum = Add (row, x)
       one = MatMul (sum, first)
       two = MatMul (one, second)
       turned = Transpose <perm = [1, 0]> (table)
       scores = MatMul (two, turned)
       s = Add (one, two)
    }
    """
    kernel = normal(rng, 12, 12, scale=0.3)
    weights = {
        "table": normal(rng, 40, 12),
        "first": kernel,
        "second": kernel,
        "idle": normal(rng, 5),
    }
    return build(
        text,
        weights,
        lambda rng, _k: {"words": rng.integers(0, 40, 6), "x": normal(rng, 6, 12)},
    )


def _fanout() -> Built:
    """One value and one weight with 240 readers: a Cast each, not a Cast for every reader."""
    rng = np.random.default_rng(25)
    readers = [f"r{index}" for index in range(240)]
    ops = ("Add", "Sub", "Mul", "Max")
    lines = [f"{name} = {ops[index % 4]} (hub, shared)" for index, name in enumerate(readers)]
    text = f"""
    agraph (float[n,14] x) => (float[n,14] y) {{
       hub = MatMul (x, kernel)
       {" ".join(lines)}
       total = Mean ({", ".join(readers)})
       y = Neg (total)
    }}
    """
    weights = {"kernel": normal(rng, 14, 14, scale=0.3), "shared": normal(rng, 14)}
    return build(text, weights, lambda rng, k: {"x": normal(rng, 2 + k, 14)}, opset=16)


def _optional_inputs() -> Built:
    """Operands left out in the middle and at the end, results left out, nodes without names."""
    rng = np.random.default_rng(26)
    text = """
    agraph (float[t,b,5] x, float[1,b,7] h, float[1,b,7] c)
        => (float[t,1,b,7] y, float[1,b,7] cell, float[t,b,5] z) {
       y, , cell = LSTM <hidden_size = 7> (x, kernel, again, , , h, c)
       below = Clip (x, , top)
       above = Clip (below, bottom)
       z, mask = Dropout (above, ratio)
    }
    """
    weights: dict[str, Array] = {
        "kernel": normal(rng, 1, 28, 5, scale=0.3),
        "again": normal(rng, 1, 28, 7, scale=0.3),
        "top": np.asarray(1.25, np.float32),
        "bottom": np.asarray(-1.25, np.float32),
        "ratio": np.asarray(0.25, np.float32),
    }
    return build(
        text,
        weights,
        lambda rng, k: {
            "x": normal(rng, 6 + k, 3, 5),
            "h": normal(rng, 1, 3, 7),
            "c": normal(rng, 1, 3, 7),
        },
    )


MODELS: Mapping[str, Callable[[], Built]] = {
    "edge_captured_subgraph": _captured_subgraph,
    "edge_fanout": _fanout,
    "edge_local_functions": _local_functions,
    "edge_names": _names,
    "edge_optional_inputs": _optional_inputs,
    "edge_shared_weights": _shared_weights,
}
