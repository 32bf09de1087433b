"""Seconds to legalise Casts by the number of nodes: ``python -m tests.benchmarks.legalise``.

A fifth of the nodes are Casts: of each four one to bool, one from it, one that ascend950 has and
one that it does in two conversions. Wanted: 100,000 nodes in under 2 seconds, the same time per
1,000 nodes in every row.
"""

import gc
import sys
import time

import onnx_ir as ir

from onnxcast.passes import LegaliseCastsPass, LowerBoolCastsPass
from onnxcast.targets import get_target

SIZES = (12_500, 25_000, 50_000, 100_000)
CASTS = (ir.DataType.FLOAT16, ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT8)


def chain(nodes: int) -> ir.Model:
    """A model of so many nodes, every fifth one a Cast."""
    value = x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 4]))
    made: list[ir.Node] = []
    for position in range(nodes):
        if position % 5:
            node = ir.node("Identity", [value], name=f"n{position}")
        else:
            to = CASTS[position // 5 % len(CASTS)]
            node = ir.node("Cast", [value], {"to": to}, name=f"n{position}")
        value = node.outputs[0]
        value.name, value.shape = f"v{position}", x.shape
        made.append(node)
    graph = ir.Graph([x], [value], nodes=made, opset_imports={"": 21}, name="chain")
    return ir.Model(graph, ir_version=10)


def legalise(model: ir.Model) -> None:
    """What is timed."""
    for legalising in (LowerBoolCastsPass, LegaliseCastsPass):
        legalising(get_target("ascend950"))(model)


def main() -> int:
    """Print a row per size."""
    sys.stdout.write(f"{'nodes':>8} {'Casts':>7} {'seconds':>8} {'per 1000':>9}\n")
    for size in SIZES:
        model = chain(size)
        gc.collect()
        start = time.process_time()
        legalise(model)
        seconds = time.process_time() - start
        casts = size // 5
        sys.stdout.write(f"{size:>8} {casts:>7} {seconds:>8.2f} {1000 * seconds / size:>9.4f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
