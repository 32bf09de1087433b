"""Seconds to make Casts legal by the number of nodes: ``python -m tests.benchmarks.legalise``.

One column for Casts from and to bool, which become other ops, one for chains of Casts.

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


def passes() -> list[ir.passes.InPlacePass]:
    """What is timed."""
    target = get_target("ascend950")
    return [LowerBoolCastsPass(target), LegaliseCastsPass(target)]


def main() -> int:
    """Print a row per size."""
    sys.stdout.write(f"{'nodes':>8} {'Casts':>7} {'bool':>6} {'chains':>7} {'both per 1000':>14}\n")
    for size in SIZES:
        model, seconds = chain(size), []
        for pass_ in passes():
            gc.collect()
            start = time.process_time()
            pass_(model)
            seconds.append(time.process_time() - start)
        lowered, legalised = seconds
        each = 1000 * sum(seconds) / size
        row = f"{size:>8} {size // 5:>7} {lowered:>6.2f} {legalised:>7.2f} {each:>14.4f}\n"
        sys.stdout.write(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
