"""Models of any number of nodes, in the shapes that large models have."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

__all__ = ["SHAPES", "model"]

OPSET = 17
FAN_OUT = 300
FUNCTION = 100
"""Nodes of a function."""

_CASTS = {
    TensorProto.FLOAT16: "Tanh",
    TensorProto.BOOL: "Not",
    TensorProto.FLOAT: "Tanh",
    TensorProto.INT8: "Sign",
}
"""What is cast to, and an op behind it that no Cast moves past."""

_WEIGHTS = {"q": 8, "k": 8, "v": 8, "o": 8, "up": 16}

_BLOCK = """
    LayerNormalization(x, gain, bias) -> a   MatMul(a, q) -> queries   MatMul(a, k) -> keys
    MatMul(a, v) -> values   Transpose(keys) -> turned   MatMul(queries, turned) -> s
    Div(s, scale) -> scaled   Softmax(scaled) -> p   MatMul(p, values) -> mixed
    MatMul(mixed, o) -> h   Add(x, h) -> r   ReduceMean(r) -> mean   Sub(r, mean) -> d
    Pow(d, two) -> squares   ReduceMean(squares) -> var   Add(var, eps) -> guarded
    Sqrt(guarded) -> deviation   Div(d, deviation) -> n   MatMul(n, up) -> wide
    Sigmoid(wide) -> gate   Mul(wide, gate) -> g   Slice(g, start, end, axis) -> half
    Identity(half) -> m   Add(r, m) -> y
"""


class _Maker:
    """Nodes and constants of a graph that grows."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._random = np.random.default_rng(0)

    def add(self, op: str, *operands: str, **attributes: Any) -> str:
        """A node more; return its result."""
        result = f"v{len(self.nodes)}"
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [result], name=name, **attributes))
        return result

    def weight(self, name: str, *shape: int) -> str:
        """A constant of this name; return it."""
        array = self._random.normal(0, 0.1, shape).astype(np.float32)
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def number(self, name: str, value: float | list[int]) -> str:
        """A constant of one number, or of whole ones."""
        dtype = np.int64 if isinstance(value, list) else np.float32
        self.constants[name] = numpy_helper.from_array(np.array(value, dtype), name)
        return name

    def blocks(self, nodes: int, prefix: str = "") -> str:
        """Blocks like those of a transformer, written out, until there are so many nodes."""
        steps = [each.strip().split(") -> ") for each in _BLOCK.replace("\n", "   ").split("   ")]
        value, block = "x", 0
        while len(self.nodes) < nodes:
            known = {"x": value}
            for name, width in _WEIGHTS.items():
                known[name] = self.weight(f"{prefix}w_{name}{block}", 8, width)
            for name in ("gain", "bias"):
                known[name] = self.weight(f"{prefix}{name}{block}", 8)
            for call, result in filter(lambda step: len(step) == 2, steps):
                op, _, operands = call.partition("(")
                names = [known.get(each, each) for each in operands.split(", ")]
                known[result] = self.nodes[-1].output[0] = prefix + self.add(op, *names)
            value, block = known["y"], block + 1
        return value

    def numbers(self) -> None:
        """What all blocks share."""
        for name, number in {"scale": 2.83, "two": 2.0, "eps": 1e-5}.items():
            self.number(name, number)
        for name, index in {"start": 0, "end": 8, "axis": -1}.items():
            self.number(name, [index])

    def model(
        self,
        result: str,
        *inputs: ValueInfoProto,
        functions: tuple[onnx.FunctionProto, ...] = (),
        kind: int = TensorProto.FLOAT,
    ) -> onnx.ModelProto:
        """The model whose output is `result`, of type `kind`."""
        graph = helper.make_graph(
            self.nodes,
            "g",
            [_value("x"), *inputs],
            [_value(result, kind)],
            list(self.constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        opsets += [helper.make_opsetid("local", 1)] if functions else []
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=8, functions=list(functions)
        )


def _value(name: str, kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [8, 8])


def blocks(nodes: int) -> onnx.ModelProto:
    """Blocks like those of a transformer, with weights of their own."""
    maker = _Maker()
    maker.numbers()
    return maker.model(maker.blocks(nodes))


def chain(nodes: int) -> onnx.ModelProto:
    """One node behind the other, and nothing that is shared."""
    maker, value = _Maker(), "x"
    for index in range(nodes):
        op = ("MatMul", "Relu", "Mul", "Tanh", "Floor")[index % 5]
        constants = [maker.weight(f"w{index}", 8, 8)] if op == "MatMul" else []
        constants += [maker.number(f"c{index}", 1.5)] if op == "Mul" else []
        value = maker.add(op, value, *constants)
    return maker.model(value)


def fan_out(nodes: int) -> onnx.ModelProto:
    """Values that 300 nodes read, half of which stay float32."""
    maker, value = _Maker(), "x"
    while len(maker.nodes) < nodes:
        ops = ("Sigmoid", "Exp", "Tanh", "Floor")
        read = [maker.add(ops[k % len(ops)], value) for k in range(min(FAN_OUT, nodes))]
        value = maker.add("Sum", *read)
    return maker.model(value)


def initializers(nodes: int) -> onnx.ModelProto:
    """A fifth as many initializers as nodes: each is read five times."""
    maker, value = _Maker(), "x"
    count = max(nodes // 5, 1)
    for index in range(count):
        maker.weight(f"w{index}", 8)
    for index in range(nodes):
        value = maker.add(("Add", "Mul")[index % 2], value, f"w{index % count}")
    return maker.model(value)


def branches(nodes: int) -> onnx.ModelProto:
    """All of it in the two branches of one If."""
    graphs = []
    for name in ("then", "else"):
        maker = _Maker()
        result = maker.blocks(nodes // 2, prefix=f"{name}_")
        constants = list(maker.constants.values())
        graphs.append(helper.make_graph(maker.nodes, name, [], [_value(result)], constants))
    outer = _Maker()
    outer.numbers()
    result = outer.add("If", "c", then_branch=graphs[0], else_branch=graphs[1])
    return outer.model(result, helper.make_tensor_value_info("c", TensorProto.BOOL, []))


def functions(nodes: int) -> onnx.ModelProto:
    """A function for every 100 nodes, each called once."""
    outer, value, made = _Maker(), "x", []
    outer.weight("w", 8, 8)
    for index in range(max(nodes // FUNCTION, 1)):
        maker, inner = _Maker(), "a"
        for step in range(FUNCTION - 1):
            op = ("MatMul", "Relu", "Tanh")[step % 3]
            inner = maker.add(op, inner, *(["b"] if op == "MatMul" else []))
        opsets = [helper.make_opsetid("", OPSET)]
        made.append(
            helper.make_function("local", f"F{index}", ["a", "b"], [inner], maker.nodes, opsets)
        )
        value = outer.add(f"F{index}", value, "w", domain="local")
    return outer.model(value, functions=tuple(made))


def casts(nodes: int) -> onnx.ModelProto:
    """Every fifth node a Cast; of four one is to bool, one from it, and one takes two steps."""
    maker, value, kinds = _Maker(), "x", list(_CASTS)
    for index in range(nodes):
        to = kinds[index // 5 % len(kinds)]
        value = maker.add(_CASTS[to], value) if index % 5 else maker.add("Cast", value, to=to)
    return maker.model(value, kind=to)


SHAPES: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "blocks": blocks,
    "chain": chain,
    "fan-out": fan_out,
    "initializers": initializers,
    "branches": branches,
    "functions": functions,
    "casts": casts,
}


def model(shape: str, nodes: int) -> onnx.ModelProto:
    """A model of about `nodes` nodes."""
    return SHAPES[shape](nodes)
