"""Random graphs whose Casts can be priced under every labelling, by no code of the plan's."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast.graph.walk import model_graphs, values
from tests.planning.plans import load

__all__ = ["CARRIERS", "Costs", "Labels", "Mover", "free_computing", "graph", "movers", "use_ranks"]

CARRIERS = ("Identity", "Transpose", "Concat")
FREE = "Sigmoid"
DOWN, UP, SAVED = 16, 32, 16

Labels = npt.NDArray[np.bool_]

# The second constant does not fit float16; nor does the third, which is made large.
CONSTANTS = "float[2] fits = {1, 2}, float[2] tenth = {0.1, 0.1}, float[2] large = {0.1, 0.1}"


class Mover(NamedTuple):
    """Values that share a format and are only moved."""

    operands: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]


def graph(random: np.random.Generator, carriers: int, computing: int = 0) -> ir.Model:
    """A graph with so many free nodes between Neg, which is narrow, and Floor, which is wide.

    An If and a Loop hand values in and out; shapes are at random, and mean nothing else.
    """
    made, lines = ["x", "y", "fits", "tenth", "large"], list[str]()
    kinds = [*random.choice(CARRIERS, carriers), *[FREE] * computing]
    kinds += ["Neg", "Floor"] * (2 + len(kinds) // 4)
    random.shuffle(kinds)
    for kind in kinds:
        operands = random.choice(made[-6:], 2 if kind == "Concat" else 1)
        name = f"v{len(made)}"
        axis = " <axis = 0>" if kind == "Concat" else ""
        lines.append(f"{name} = {kind}{axis} ({', '.join(operands)})")
        made.append(name)
    outputs = {str(each) for each in random.choice(made[5:], 2)} | {made[-1]}
    inner = [str(each) for each in random.choice(made[5:], 4)]
    ends = [str(each) for each in random.choice(["Neg", "Floor"], 5)]
    lines.append(
        f"c = If (b) <then_branch = t () => (float[4] o) {{ o = {ends[0]} ({inner[0]}) }}, "
        f"else_branch = e () => (float[4] o) {{ o = {ends[1]} ({inner[1]}) }}>"
    )
    lines.append(
        f"l, m = Loop (n, b, {inner[2]}) <body = s (int64 i, bool g, float[4] p) => "
        f"(bool g, float[4] q, float[4] r) {{ u = {ends[2]} (p) q = Identity (u) "
        f"r = {ends[3]} ({inner[3]}) }}>"
    )
    lines.append(f"d = {ends[4]} (l)")
    declared = ", ".join(f"float[4] {name}" for name in (*sorted(outputs), "c", "d", "m"))
    model = load(
        f"g (float[4] x, float[4] y, bool b, int64 n) => ({declared}) <{CONSTANTS}> "
        f"{{ {' '.join(lines)} }}"
    )
    content = np.full(20_000, 0.1, np.float32)
    model.graph.initializers["large"].const_value = ir.tensor(content, name="large")
    for value in _floats(model):
        value.shape = ir.Shape([int(random.choice([1, 2, 4, 7]))])
    return model


def use_ranks(model: ir.Model, *, known: bool) -> None:
    """Forget the shapes of inner values unless they are to be `known`."""
    for value in _floats(model):
        if not (known or value.is_graph_input() or value.is_graph_output()):
            value.shape = None


def _floats(model: ir.Model) -> Iterator[ir.Value]:
    for scope in model_graphs(model):
        for value in values(scope):
            if value.type is None or value.type.dtype == ir.DataType.FLOAT:
                yield value


def movers(model: ir.Model) -> list[Mover]:
    """Data movement, and what If and Loop hand in and out."""
    found: list[Mover] = []
    for scope in model_graphs(model):
        for node in scope:
            if node.op_type in CARRIERS:
                found.append(Mover(tuple(filter(None, node.inputs)), tuple(node.outputs)))
            elif node.op_type == "If":
                inner = [each.as_graph() for each in node.attributes.values()]
                found.append(Mover(tuple(body.outputs[0] for body in inner), (node.outputs[0],)))
            elif node.op_type == "Loop":
                body, start = node.attributes["body"].as_graph(), node.inputs[2]
                assert start is not None
                state = Mover((start, body.outputs[1]), (node.outputs[0], body.inputs[2]))
                found += [state, Mover((body.outputs[2],), (node.outputs[1],))]
    return found


def free_computing(model: ir.Model) -> list[ir.Node]:
    """The nodes that compute in either format."""
    return [node for scope in model_graphs(model) for node in scope if node.op_type == FREE]


class Costs:
    """Prices of all labellings at once: True is narrow.

    Args:
        model: What `graph` made.
        moving: What is free among its data movement.
        computing: What is free beside it.
        islands: Which of the others named Sigmoid are wide.
        by_count: Whether each Cast, and each free computing node that is wide, costs 1.
        tainting: Whether no wide reader may see data rounded for a mover's sake.
    """

    def __init__(
        self,
        model: ir.Model,
        moving: list[Mover],
        computing: list[ir.Node],
        islands: Iterable[ir.Node] = (),
        *,
        by_count: bool = False,
        tainting: bool = False,
    ) -> None:
        count = len(moving) + len(computing)
        labels = np.array(list(itertools.product([False, True], repeat=count)), np.bool_)
        self.labels: Labels = labels.reshape(-1, count)
        self._narrow = np.ones(len(self.labels), np.bool_)
        self.total = np.zeros(len(self.labels), np.int64)
        self.legal = self._narrow.copy()
        self._by_count = by_count
        self._islands = set(islands)
        self._by_result = {
            value: self.labels[:, i] for i, mover in enumerate(moving) for value in mover.results
        }
        self._by_node = {node: self.labels[:, len(moving) + i] for i, node in enumerate(computing)}
        self._readers: dict[ir.Value, list[Labels]] = {}
        for i, mover in enumerate(moving):
            for value in mover.operands:
                self._readers.setdefault(value, []).append(self.labels[:, i])
        self._tainted = self._wide_data(moving) if tainting else set()
        self._price(model, moving)

    def _price(self, model: ir.Model, moving: list[Mover]) -> None:
        handed = {value for mover in moving for value in mover.operands}
        for value in _floats(model):
            readers = self._readers.get(value, [])[:]
            for node, _ in value.uses():
                if node.op_type in (*CARRIERS, "If", "Loop"):
                    continue
                readers.append(self._computed(node))
            if value.graph is model.graph and value.is_graph_output():
                readers.append(~self._narrow)
            assert readers or value not in handed
            self._add(value, readers)
        for node in self._by_node:
            moved = {*node.inputs, *node.outputs}
            bits = sum(SAVED * self._size(value) for value in moved if value is not None)
            self.total += np.where(self._by_node[node], 0, 1 if self._by_count else bits)

    def _add(self, value: ir.Value, readers: list[Labels]) -> None:
        tainted = value in self._tainted
        if not readers:  # what nobody reads follows what it reads
            if tainted:
                self.legal &= ~self._by_result[value]
            return
        wide, narrow = np.any([~each for each in readers], axis=0), np.any(readers, axis=0)
        size = self._size(value)
        down, up = (1, 1) if self._by_count else (DOWN * size, UP * size)
        if value.name == "large":
            self.total += np.where(wide & narrow, down, 0)
        elif value.name not in ("fits", "tenth"):
            made = self._made(value)
            self.total += np.where(made & wide, up, 0) + np.where(~made & narrow, down, 0)
            if tainted:
                self.legal &= ~(made & wide)

    def _size(self, value: ir.Value) -> int:
        return 1 if value.shape is None else int(value.shape[0])  # type: ignore[arg-type] # set

    def _made(self, value: ir.Value) -> Labels:
        if value in self._by_result:
            return self._by_result[value]
        producer = value.producer()
        return ~self._narrow if producer is None else self._computed(producer)

    def _computed(self, node: ir.Node) -> Labels:
        if node in self._by_node:
            return self._by_node[node]
        wide = node.op_type == "Floor" or node in self._islands
        return ~self._narrow if wide else self._narrow

    def _wide_data(self, moving: list[Mover]) -> set[ir.Value]:
        """Results of movers that wide data reaches."""
        found, before = set[ir.Value](), -1
        while len(found) > before:
            before = len(found)
            for mover in moving:
                for value in mover.operands:
                    wide = value.name != "fits" and not self._made(value).all()
                    if value in found or (value not in self._by_result and wide):
                        found.update(mover.results)
        return found
