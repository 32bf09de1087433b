"""Seconds of each pass by the number of nodes: ``python -m tests.benchmarks.conversion``.

The model is a chain of blocks of eight nodes, each with a weight of its own. A pass that is linear
in nodes takes the same time per 1,000 nodes in every row.
"""

import sys
import time

import numpy as np
import onnx_ir as ir

from onnxcast.pipeline import build_pipeline
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC

SIZES = (10_000, 20_000, 40_000, 80_000)


def chain(nodes: int) -> ir.Model:
    """A model of about `nodes` nodes: MatMul, Add, LayerNorm-like statistics, Softmax."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 4]))
    made: list[ir.Node] = []
    weights: list[ir.Value] = []
    value = x

    def add(op: str, *operands: ir.Value, **attributes: int) -> ir.Value:
        node = ir.node(op, list(operands), attributes, name=f"n{len(made)}")
        node.outputs[0].name = f"v{len(made)}"
        made.append(node)
        return node.outputs[0]

    while len(made) < nodes:
        tensor = ir.tensor(np.eye(4, dtype=np.float32), name=f"w{len(weights)}")
        weight = ir.Value(name=tensor.name, const_value=tensor)
        weight.type, weight.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([4, 4])
        weights.append(weight)
        product = add("Add", add("MatMul", value, weight), value)
        mean = add("ReduceMean", product, keepdims=1)
        centred = add("Sub", product, mean)
        value = add("Relu", add("Softmax", add("Transpose", add("Transpose", centred))))
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2, 4])
    graph = ir.Graph([x], [value], nodes=made, initializers=weights, opset_imports={"": 21})
    graph.name = "chain"
    return ir.Model(graph, ir_version=10)


def main() -> int:
    """Print a row per size."""
    policy = make_policy(fp32_cast="all-fp16")
    names = [type(p).__name__.removesuffix("Pass") for p in build_pipeline(policy, GENERIC)]
    sys.stdout.write(f"{'nodes':>8} {'seconds':>9} {'per 1000':>9}  {' '.join(names)}\n")
    for size in SIZES:
        model, seconds = chain(size), []
        for pass_ in build_pipeline(policy, GENERIC):
            start = time.process_time()
            pass_(model)
            seconds.append(time.process_time() - start)
        each = " ".join(f"{s:>{len(name)}.2f}" for s, name in zip(seconds, names, strict=True))
        total = sum(seconds)
        sys.stdout.write(f"{size:>8} {total:>9.2f} {1000 * total / size:>9.4f}  {each}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
