"""Routes: how the target does each Cast of a model, decided before anything is changed.

One conversion, a chain of them, or, as targets convert no bool, a comparison or a choice.
"""

import dataclasses
import math
from collections.abc import Iterator

import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import BOOL, FLOAT32, Format
from onnxcast.graph.edit import Casts, cast_target
from onnxcast.graph.schemas import signature_of
from onnxcast.graph.truth import (
    compare_with_zero,
    is_comparable,
    is_selectable,
    select_one_or_zero,
)
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label
from onnxcast.targets import Chain, Chains, Target

__all__ = ["CastCost", "IllegalCast", "Route", "Routes"]


@dataclasses.dataclass(frozen=True)
class IllegalCast:
    """A Cast that nothing replaces.

    Attributes:
        node: The Cast.
        source: Format before; None if nothing tells it.
        target: Format after.
        why: What is in the way.
    """

    node: ir.Node
    source: Format | None
    target: Format
    why: str

    def __str__(self) -> str:
        source = "a value of unknown type" if self.source is None else self.source
        return f"node {label(self.node)!r} {source} to {self.target} ({self.why})"


@dataclasses.dataclass(frozen=True)
class Route:
    """How one Cast is done.

    Attributes:
        node: The Cast.
        chain: Its conversions; None if it needs none.
        compared: For a Cast to bool, the type that is compared with 0 after the chain.
        chosen: For a Cast from bool, the type that is chosen from before the chain.
    """

    node: ir.Node
    chain: Chain | None
    compared: ir.DataType | None = None
    chosen: ir.DataType | None = None

    @property
    def is_native(self) -> bool:
        """Whether the Cast can stay as it is."""
        truth = self.compared is not None or self.chosen is not None
        return not truth and self.chain is not None and self.chain.hops == 1

    def __str__(self) -> str:
        if self.compared is not None:
            return f"{label(self.node)} became a comparison with 0"
        if self.chosen is not None:
            return f"{label(self.node)} became a choice of 1 or 0"
        assert self.chain is not None
        labels = ", ".join(sorted(self.chain.labels))
        return f"{label(self.node)} became {self.chain.hops} Casts: {self.chain} ({labels})"

    @property
    def elements(self) -> int:
        """How many elements the Cast converts; a dimension that is not known counts 1."""
        operand = self.node.inputs[0]
        shape = self.node.outputs[0].shape or (None if operand is None else operand.shape)
        known = (size for size in shape or () if isinstance(size, int))
        return math.prod(known)

    def carry_out(self, casts: Casts) -> None:
        """Replace the Cast."""
        source, graph = self.node.inputs[0], self.node.graph
        assert source is not None
        assert graph is not None
        path = () if self.chain is None else self.chain.path[1:]
        stem = self.node.outputs[0].name or "cast"
        if self.chosen is not None:
            nodes = select_one_or_zero(source, self.chosen, casts.names, stem)
            if not path:
                self._take_place(graph, nodes)
                return
            graph.insert_before(self.node, nodes)
            source = nodes[-1].outputs[0]
        last = path if self.compared is not None else path[:-1]
        for format_ in last:
            assert format_.dtype is not None
            source = casts.of(source, format_.dtype)
        if self.compared is not None:
            nodes = compare_with_zero(source, self.compared, casts.names, stem)
            self._take_place(graph, nodes)
        else:
            self.node.replace_input_with(0, source)

    def _take_place(self, graph: ir.Graph, nodes: list[ir.Node]) -> None:
        """Put `nodes` in place of the Cast; the last one gets its name and what is known of it."""
        new, old = nodes[-1], self.node
        new.doc_string = old.doc_string
        new.metadata_props.update(old.metadata_props)
        name = old.name
        ir.convenience.replace_nodes_and_values(
            graph, old, [old], nodes, [old.outputs[0]], [new.outputs[0]]
        )
        if name:
            new.name = name


class Routes:
    """Finds how each Cast of one model is done.

    Args:
        target: Has a table of conversions.
        types: Element types of the model.
        exact_bridges: As for `Chains`.
    """

    def __init__(self, target: Target, types: ElementTypes, *, exact_bridges: bool = False) -> None:
        self._target = target
        self._exact = exact_bridges
        self._types = types
        self._chains: dict[int, Chains] = {}

    def of(self, node: ir.Node) -> Route | IllegalCast:
        """The route of a Cast, or why there is none."""
        to, source = cast_target(node), self._types.dtype(node.inputs[0])
        version = self._types.schemas.version(node)
        assert to is not None
        assert version is not None
        target = formats.of(to)
        if source is None:
            return IllegalCast(node, None, target, "nothing tells whether it can be done")
        if source == to:
            return IllegalCast(node, target, target, "no conversion at all; fold it before")
        if target == BOOL:
            return self._to_bool(node, formats.of(source), version)
        if source == ir.DataType.BOOL:
            return self._from_bool(node, target, version)
        chains = self._at(version)
        chain = chains.find(formats.of(source), target)
        if chain is not None:
            return Route(node, chain)
        why = chains.why_not(formats.of(source), target)
        return IllegalCast(node, formats.of(source), target, why)

    def _to_bool(self, node: ir.Node, source: Format, version: int) -> Route | IllegalCast:
        for compared, chain in self._ways(source, version, outwards=True):
            if is_comparable(compared, version):
                return Route(node, chain, compared=compared)
        return IllegalCast(node, source, BOOL, "Equal takes no type that holds all its values")

    def _from_bool(self, node: ir.Node, target: Format, version: int) -> Route | IllegalCast:
        for chosen, chain in self._ways(target, version, outwards=False):
            if is_selectable(chosen, version):
                return Route(node, chain, chosen=chosen)
        return IllegalCast(node, BOOL, target, "Where takes no type from which it can be reached")

    def _ways(
        self, format_: Format, version: int, *, outwards: bool
    ) -> Iterator[tuple[ir.DataType, Chain | None]]:
        """Types that stand for `format_`: itself, and those that a chain leads to, or from."""
        if format_.dtype is not None and format_.kind is not formats.Kind.STRING:
            yield format_.dtype, None
        chains = self._at(version)
        for other in (FLOAT32, *self._target.converted):
            path = (format_, other) if outwards else (other, format_)
            chain = chains.find(*path) if other.dtype is not None else None
            lossless = formats.contains(other, format_) if outwards else other != BOOL
            if chain is not None and lossless and other.dtype is not None:
                yield other.dtype, chain

    def _at(self, version: int) -> Chains:
        """The chains at an opset version, over types that its Cast takes."""
        if version not in self._chains:
            cast = signature_of("", "Cast", version)
            without = frozenset(
                each
                for each in self._target.converted
                if each.dtype is None
                or cast is None
                or not cast.allows("T2", ir.TensorType(each.dtype))
            )
            self._chains[version] = Chains(self._target, exact_bridges=self._exact, without=without)
        return self._chains[version]


@dataclasses.dataclass(frozen=True)
class CastCost:
    """A Cast of the model before, and what the target makes of it.

    Attributes:
        node: Its name, or how messages call it.
        chain: The conversions.
        bytes: What they write; a dimension that is not known counts 1.
    """

    node: str
    chain: Chain
    bytes: int
