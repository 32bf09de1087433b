"""Routes: how the target does each Cast of a model, decided before anything is changed."""

import dataclasses

import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import BOOL, STRING, Format
from onnxcast.graph.edit import cast_target
from onnxcast.graph.schemas import signature_of
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label
from onnxcast.targets import Chain, Chains, Target

__all__ = ["IllegalCast", "Route", "Routes"]


_WITH_ALL = 13
"""The opset at which Equal, Where and Constant take all common types."""


@dataclasses.dataclass(frozen=True)
class IllegalCast:
    """A Cast that nothing replaces.

    Attributes:
        node: The Cast.
        source: Format before; None if nothing tells it.
        target: Format after; None if the call of a function decides.
        why: What is in the way.
    """

    node: ir.Node
    source: Format | None
    target: Format | None
    why: str

    def __str__(self) -> str:
        source, target = (str(each or "an unknown type") for each in (self.source, self.target))
        return f"node {label(self.node)!r} {source} to {target} ({self.why})"


@dataclasses.dataclass(frozen=True)
class Route:
    """How one Cast is done.

    Attributes:
        node: The Cast.
        source: What its chain begins with: its operand, or what that was cast from.
        chain: Its conversions.
        elements: How many elements it casts; a dimension that is not known counts 1.
    """

    node: ir.Node
    source: ir.Value
    chain: Chain
    elements: int

    def __str__(self) -> str:
        return f"{label(self.node)} became {self.chain.hops} Casts: {self.chain.described}"

    @property
    def is_native(self) -> bool:
        """Whether the Cast can stay as it is."""
        return self.chain.hops == 1 and self.source is self.node.inputs[0]

    @property
    def stands(self) -> bool:
        """Whether the chain is in the graph, Cast by Cast."""
        node: ir.Node | None = self.node
        for format_ in reversed(self.chain.path[1:]):
            if node is None or node.graph is None or cast_target(node) != format_.dtype:
                return False
            source = node.inputs[0]
            node = None if source is None else source.producer()
        return True

    @property
    def bytes(self) -> int:
        """Bytes that the conversions write; a dimension that is not known counts 1."""
        return -(-self.elements * self.chain.element_bits // 8)


class Routes:
    """Finds how each Cast of one model is done.

    Args:
        target: Has a table of conversions.
        types: Element types of the model.
        shapes: Shapes of the model.
        exact_bridges: As for `Chains`.
    """

    def __init__(
        self, target: Target, types: ElementTypes, shapes: Shapes, *, exact_bridges: bool = False
    ) -> None:
        self._target = target
        self._shapes = shapes
        self._exact = exact_bridges
        self._types = types
        self._chains: dict[int, Chains] = {}

    def of(self, node: ir.Node) -> Route | IllegalCast:
        """The route of a Cast or CastLike, or why there is none."""
        to, dtype = cast_target(node), self._types.dtype(node.inputs[0])
        source = None if dtype is None else formats.of(dtype)
        if to is None:
            why = "the call of a function decides; inline it (--functions inline)"
            return IllegalCast(node, source, None, why)
        target, version = formats.of(to), self._types.schemas.version(node)
        assert version is not None
        if source is None:
            why = "nothing tells whether it can be done; inline functions (--functions inline)"
            return IllegalCast(node, None, target, why)
        if source == target:
            return IllegalCast(node, source, target, "no conversion at all; fold it before")
        chains, operand = self._at(version), node.inputs[0]
        chain = chains.find(source, target)
        if chain is not None:
            assert operand is not None
            size = self._shapes.elements(operand)
            return self._shortened(Route(node, operand, chain, size), chains)
        why = chains.why_not(source, target)
        if BOOL in (source, target) and STRING not in (source, target) and version < _WITH_ALL:
            why = f"opset {version} has nothing in its place; raise it to {_WITH_ALL}"
        return IllegalCast(node, source, target, why)

    def _shortened(self, route: Route, chains: Chains) -> Route:
        """`route` without its first conversion, where that undoes the exact Cast before it."""
        cast, path = route.source.producer(), route.chain.path
        before = cast.inputs[0] if cast is not None and cast_target(cast) is not None else None
        dtype = None if before is None else self._types.dtype(before)
        if before is None or dtype is None or len(path) < 3 or formats.of(dtype) != path[1]:
            return route
        if not formats.contains(path[0], path[1]):
            return route
        chain = chains.chain(path[1:])
        return dataclasses.replace(route, source=before, chain=chain)

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
