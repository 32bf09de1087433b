"""Seconds to place Casts by the number of nodes: ``python -m tests.benchmarks.placement``.

Data movement, arithmetic that is narrow and arithmetic that is wide, at random. The minimum cut is
timed alone and as a part of the plan. Wanted: 100,000 nodes cut in under 3 seconds and 1 GB.
"""

import gc
import resource
import sys
import time
from typing import Any
from unittest import mock

import numpy as np
import onnx_ir as ir

from onnxcast.planning import make_plan
from onnxcast.planning.carriers import Carried, place_carriers
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC

SIZES = (12_500, 25_000, 50_000, 100_000)
OPS = ("Transpose", "Concat", "Identity", "Neg", "Floor")
SHARES = (0.3, 0.2, 0.2, 0.2, 0.1)


def graph(nodes: int) -> ir.Model:
    """A random graph of so many nodes, each reading some of the eight values before it."""
    random = np.random.default_rng(0)
    float32 = ir.TensorType(ir.DataType.FLOAT)
    values = [ir.Value(name="x", type=float32, shape=ir.Shape([4, 4]))]
    made: list[ir.Node] = []
    for position in range(nodes):
        op = str(random.choice(OPS, p=SHARES))
        count, attributes = (2, [ir.AttrInt64("axis", 0)]) if op == "Concat" else (1, [])
        back = random.integers(0, min(len(values), 8), count)
        operands = [values[-1 - int(each)] for each in back]
        node = ir.Node("", op, operands, attributes, name=f"n{position}")
        node.outputs[0].name = f"v{position}"
        node.outputs[0].shape = ir.Shape([int(random.integers(1, 9)), 4])
        made.append(node)
        values.append(node.outputs[0])
    values[-1].type = float32
    held = ir.Graph(values[:1], values[-1:], nodes=made, opset_imports={"": 21}, name="random")
    return ir.Model(held, ir_version=10)


def timed(model: ir.Model) -> tuple[float, float]:
    """Seconds of the cut, and of the whole plan."""
    cuts: list[float] = []

    def watched(*arguments: Any) -> Carried:
        start = time.process_time()
        found = place_carriers(*arguments)
        cuts.append(time.process_time() - start)
        return found

    with mock.patch("onnxcast.planning.borders.place_carriers", watched):
        start = time.process_time()
        make_plan(model, make_policy(fp32_cast="all-fp16"), GENERIC)
        return cuts[0], time.process_time() - start


def main() -> int:
    """Print a row per size."""
    sys.stdout.write(f"{'nodes':>8} {'cut':>6} {'plan':>6} {'cut per 1000':>13} {'peak MiB':>9}\n")
    for size in SIZES:
        model = graph(size)
        gc.collect()
        cut, whole = timed(model)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        row = f"{size:>8} {cut:>6.2f} {whole:>6.2f} {1000 * cut / size:>13.4f} {peak:>9}\n"
        sys.stdout.write(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
