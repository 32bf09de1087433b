"""Routes: how the target does each Cast of a model, decided before anything is changed."""

import dataclasses
import math

import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import BOOL, Format
from onnxcast.graph.edit import cast_target
from onnxcast.graph.schemas import signature_of
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
        chain: Its conversions.
    """

    node: ir.Node
    chain: Chain

    def __str__(self) -> str:
        labels = ", ".join(sorted(self.chain.labels))
        return f"{label(self.node)} became {self.chain.hops} Casts: {self.chain} ({labels})"

    @property
    def cost(self) -> "CastCost":
        """What the conversions write."""
        operand = self.node.inputs[0]
        shape = self.node.outputs[0].shape or (None if operand is None else operand.shape)
        elements = math.prod(size for size in shape or () if isinstance(size, int))
        written = round(elements * self.chain.element_bytes)
        return CastCost(label(self.node), self.chain, written)


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
        chains = self._at(version)
        chain = chains.find(source, target)
        if chain is not None:
            return Route(node, chain)
        why = chains.why_not(source, target)
        if BOOL in (source, target):
            why = f"opset {version} has no comparison or choice in its place; raise it to 13"
        return IllegalCast(node, source, target, why)

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
