"""Networks with planted faults, for tests of what is found in them."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FAULTS", "Fault", "network", "sample"]

Fault = Literal["overflow", "cancellation"]

FAULTS: tuple[Fault, ...] = ("overflow", "cancellation")

_WIDTH = 16


def network(layers: int, faults: Sequence[tuple[int, Fault]]) -> onnx.ModelProto:
    """Layers of MatMul, Add and Tanh that bear rounding well, but for some.

    Args:
        layers: How many.
        faults: Behind which layers what is planted: nodes ``planted_up_N`` and ``planted_down_N``
            that go far up, beyond float16 or where it has no fine steps, and come back.
    """
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"

    def constant(name: str, array: npt.NDArray[Any]) -> str:
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(op: str, inputs: list[str], name: str) -> str:
        nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name))
        return f"{name}_out"

    planted = dict(faults)
    for layer in range(layers):
        weight = rng.normal(0, 1 / np.sqrt(_WIDTH), (_WIDTH, _WIDTH))
        product = node("MatMul", [value, constant(f"w{layer}", weight)], f"product_{layer}")
        bias = constant(f"b{layer}", rng.normal(0, 0.1, _WIDTH))
        value = node("Tanh", [node("Add", [product, bias], f"sum_{layer}")], f"tanh_{layer}")
        if planted.get(layer) == "overflow":
            large = node(
                "Mul", [value, constant(f"large{layer}", np.array(1000))], f"large_{layer}"
            )
            value = node("Mul", [large, large], f"planted_up_{layer}")
            value = node(
                "Mul", [value, constant(f"s{layer}", np.array(2.0**-20))], f"planted_down_{layer}"
            )
        elif planted.get(layer) == "cancellation":
            far = constant(f"far{layer}", np.array(3000))
            value = node("Add", [value, far], f"planted_up_{layer}")
            value = node("Sub", [value, far], f"planted_down_{layer}")
    nodes.append(helper.make_node("Identity", [value], ["y"], name="out"))
    shape = [4, _WIDTH]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def sample(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """A sample for any of them."""
    return {"x": np.random.default_rng(seed).normal(0, 1, (4, _WIDTH)).astype(np.float32)}
