"""Random typed graphs: valid by construction, small, and rich in what placement must get right."""

import dataclasses
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["models"]

FLOAT, FLOAT16, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
INT64, BOOL = TensorProto.INT64, TensorProto.BOOL

# One-element constants: harmless ones, a guard, a scale out of range, a mask.
SCALARS = (0.1, 1.0, 2.0, 1e-12, 1e6, -3.4e38)
UNARY = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Floor", "Erf", "Softmax", "Identity")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax")

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of two dimensions that later nodes may read."""

    name: str
    dtype: int
    shape: tuple[int, int]


class Builder:
    """Adds one random node after the other; each method adds one kind."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.inputs = [Value("x", FLOAT, (4, 4)), Value("z", FLOAT, (4, 4))]
        self.values = list(self.inputs)

    def pick(self, *, dtype: int | None = FLOAT, like: Value | None = None) -> Value:
        """A value to read, the later ones rather than the earlier."""
        fitting = [
            value
            for value in self.values
            if dtype in (None, value.dtype) and (like is None or value.shape == like.shape)
        ]
        index = st.integers(0, len(fitting) - 1)
        drawn: list[int] = [self.draw(index), self.draw(index)]
        return fitting[max(drawn)]

    def add(
        self,
        op: str,
        operands: list[str],
        results: list[tuple[int, tuple[int, int]]],
        **attributes: Any,
    ) -> list[str]:
        """Append a node and make its results readable."""
        names = [f"v{len(self.values) + k}" for k in range(len(results))]
        self.nodes.append(helper.make_node(op, operands, names, **attributes))
        self.values.extend(
            Value(name, dtype, shape) for name, (dtype, shape) in zip(names, results, strict=True)
        )
        return names

    def constant(self, name: str, array: Any) -> str:
        """A shared initializer."""
        self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def unary(self) -> None:
        value = self.pick()
        self.add(self.draw(st.sampled_from(UNARY)), [value.name], [(FLOAT, value.shape)])

    def binary(self) -> None:
        left = self.pick()
        right = self.pick(like=left)
        operands = [left.name, right.name]
        self.add(self.draw(st.sampled_from(BINARY)), operands, [(FLOAT, left.shape)])

    def scalar(self) -> None:
        value = self.pick()
        operands = [value.name, self.element()]
        self.add(self.draw(st.sampled_from(BINARY)), operands, [(FLOAT, value.shape)])

    def matmul(self) -> None:
        value, columns = self.pick(), self.draw(st.sampled_from([2, 4]))
        rows = value.shape[1]
        weights = np.linspace(-1, 1, rows * columns, dtype=np.float32).reshape(rows, columns)
        operands = [value.name, self.constant(f"w{rows}x{columns}", weights)]
        self.add("MatMul", operands, [(FLOAT, (value.shape[0], columns))])

    def reduce(self) -> None:
        value = self.pick()
        reduced = self.add(self.draw(st.sampled_from(REDUCE)), [value.name], [(FLOAT, (1, 1))])
        self.add("Sub", [value.name, *reduced], [(FLOAT, value.shape)])

    def transpose(self) -> None:
        value = self.pick(dtype=None)
        shape = (value.shape[1], value.shape[0])
        self.add("Transpose", [value.name], [(value.dtype, shape)])

    def reshape(self) -> None:
        value = self.pick(dtype=None)
        shape = (value.shape[0] * value.shape[1], 1)
        target = self.constant("column", np.array([-1, 1], np.int64))
        self.add("Reshape", [value.name, target], [(value.dtype, shape)])

    def concat(self) -> None:
        left = self.pick(dtype=None)
        right = self.pick(dtype=left.dtype, like=left)
        shape = (2 * left.shape[0], left.shape[1])
        self.add("Concat", [left.name, right.name], [(left.dtype, shape)], axis=0)

    def split(self) -> None:
        value = self.pick()
        rows = value.shape[0]
        if rows < 2:
            return
        shapes = [((rows + 1) // 2, value.shape[1]), (rows - (rows + 1) // 2, value.shape[1])]
        self.add("Split", [value.name], [(FLOAT, shape) for shape in shapes], num_outputs=2)

    def slice(self) -> None:
        value = self.pick()
        rows = value.shape[0]
        start = self.draw(st.integers(0, rows - 1))
        bounds = [
            self.constant(f"i{index}", np.array([index], np.int64)) for index in (start, rows, 0)
        ]
        self.add("Slice", [value.name, *bounds], [(FLOAT, (rows - start, value.shape[1]))])

    def gather(self) -> None:
        value = self.pick()
        count = self.draw(st.integers(1, 3))
        indices = self.constant(f"first{count}", np.zeros(count, np.int64))
        self.add("Gather", [value.name, indices], [(FLOAT, (count, value.shape[1]))])

    def pad(self) -> None:
        value = self.pick()
        pads = self.constant("pads", np.array([0, 0, 1, 0], np.int64))
        operands = [value.name, pads, *self.draw(st.sampled_from([[], [self.element()]]))]
        self.add("Pad", operands, [(FLOAT, (value.shape[0] + 1, value.shape[1]))])

    def expand(self) -> None:
        value = self.pick()
        if value.shape[0] != 1:
            return
        shape = self.constant(f"rows{value.shape[1]}", np.array([3, value.shape[1]], np.int64))
        self.add("Expand", [value.name, shape], [(FLOAT, (3, value.shape[1]))])

    def beside_constant(self) -> None:
        """A constant that data movement carries along, which the format holds or not."""
        value, exact = self.pick(), self.draw(st.booleans())
        array = np.full((1, value.shape[1]), 0.5 if exact else 0.1, np.float32)
        constant = self.constant(f"row{value.shape[1]}_{exact}", array)
        shape = (value.shape[0] + 1, value.shape[1])
        self.add("Concat", [value.name, constant], [(FLOAT, shape)], axis=0)

    def element(self) -> str:
        """A constant of one element."""
        index = self.draw(st.integers(0, len(SCALARS) - 1))
        return self.constant(f"c{index}", np.array(SCALARS[index], np.float32))

    def where(self) -> None:
        left = self.pick()
        right = self.pick(like=left)
        condition = self.add("Greater", [left.name, right.name], [(BOOL, left.shape)])
        other = self.element() if self.draw(st.booleans()) else self.pick(like=left).name
        self.add("Where", [*condition, right.name, other], [(FLOAT, left.shape)])

    def cast(self) -> None:
        value = self.pick(dtype=None)
        to = self.draw(st.sampled_from([FLOAT, FLOAT, FLOAT16, DOUBLE, INT64]))
        self.add("Cast", [value.name], [(to, value.shape)], to=to)

    def back(self) -> None:
        value = self.pick()
        to = self.draw(st.sampled_from([FLOAT16, DOUBLE]))
        low = self.add("Cast", [value.name], [(to, value.shape)], to=to)
        self.add("Cast", low, [(FLOAT, value.shape)], to=FLOAT)

    def around(self) -> None:
        """Data movement or a flip of signs between exact Casts, some of them repeated."""
        narrow, wide = self.draw(st.sampled_from([(FLOAT16, FLOAT), (FLOAT, DOUBLE)]))
        value = self.pick(dtype=narrow) if narrow == FLOAT else self.pick()
        if narrow != FLOAT:
            [low] = self.add("Cast", [value.name], [(narrow, value.shape)], to=narrow)
            value = Value(low, narrow, value.shape)
        [high] = self.add("Cast", [value.name], [(wide, value.shape)], to=wide)
        op = self.draw(st.sampled_from(["Transpose", "Neg", "Abs"]))
        shape = value.shape[::-1] if op == "Transpose" else value.shape
        shape = (shape[0], shape[1])
        moved = self.add(op, [high], [(wide, shape)])
        for _ in range(self.draw(st.integers(1, 2))):
            self.add("Cast", moved, [(narrow, shape)], to=narrow)

    def branch(self) -> None:
        left = self.pick()
        right = self.pick(like=left)
        branches = [self.body(value) for value in (left, right)]
        self.add(
            "If",
            ["flag"],
            [(FLOAT, left.shape)],
            then_branch=branches[0],
            else_branch=branches[1],
        )

    def body(self, captured: Value) -> onnx.GraphProto:
        """A branch; names inside are the same in every branch."""
        number = len(self.values)
        return helper.make_graph(
            self.inside(captured, captured.name, f"branch{number}"),
            "branch",
            [],
            [helper.make_tensor_value_info(f"branch{number}", FLOAT, captured.shape)],
        )

    def inside(self, like: Value, first: str, result: str) -> list[onnx.NodeProto]:
        """Nodes that move `first`, compute, and read a captured value."""
        other = self.pick(like=like)
        unary, binary = self.draw(st.tuples(st.sampled_from(UNARY), st.sampled_from(BINARY)))
        return [
            helper.make_node("Transpose", [first], ["turned"], perm=[0, 1]),
            helper.make_node(unary, ["turned"], ["inner"]),
            helper.make_node(binary, ["inner", other.name], [result]),
        ]

    def loop(self) -> None:
        """Two rounds over a state, the values of which are stacked too."""
        start = self.pick()
        rows, columns = start.shape
        if rows > 8:
            return
        trips = self.constant("trips", np.array(2, np.int64))
        body = helper.make_graph(
            [
                *self.inside(start, "state", "next"),
                helper.make_node("Identity", ["on"], ["still"]),
                helper.make_node("Reshape", ["next", "flat"], ["row"]),
            ],
            "body",
            [
                helper.make_tensor_value_info("round", INT64, []),
                helper.make_tensor_value_info("on", BOOL, []),
                helper.make_tensor_value_info("state", FLOAT, start.shape),
            ],
            [
                helper.make_tensor_value_info("still", BOOL, []),
                helper.make_tensor_value_info("next", FLOAT, start.shape),
                helper.make_tensor_value_info("row", FLOAT, [rows * columns]),
            ],
        )
        self.constant("flat", np.array([-1], np.int64))
        results = [start.shape, (2, rows * columns)]
        self.add("Loop", [trips, "", start.name], [(FLOAT, shape) for shape in results], body=body)


STEPS = (
    *(Builder.unary, Builder.binary, Builder.scalar, Builder.matmul, Builder.reduce),
    *(Builder.transpose, Builder.reshape, Builder.concat, Builder.split, Builder.where),
    *(Builder.slice, Builder.gather, Builder.pad, Builder.expand, Builder.beside_constant),
    *(Builder.cast, Builder.back, Builder.around, Builder.branch, Builder.loop),
)


@st.composite
def models(draw: Draw, *, least: int = 1, most: int = 14) -> onnx.ModelProto:
    """A model of `least` to `most` random steps, with or without declared inner types."""
    builder = Builder(draw)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=least, max_size=most)):
        step(builder)
    made = builder.values[len(builder.inputs) :] or [builder.inputs[0]]
    last = made[-1]
    others = draw(st.lists(st.sampled_from(made), max_size=4))
    outputs = {value.name: value for value in (last, *others)}
    graph = helper.make_graph(
        builder.nodes,
        "random",
        [
            *(helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in builder.inputs),
            helper.make_tensor_value_info("flag", BOOL, []),
        ],
        [helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in outputs.values()],
        list(builder.initializers.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    if draw(st.booleans()):
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    return model
