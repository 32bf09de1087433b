"""What Casts cost on a target: bits that all conversions of a chain write, or one for each Cast."""

import onnx_ir as ir

from onnxcast.formats import FLOAT32, Format
from onnxcast.graph.shapes import Shapes
from onnxcast.planning.groups import Group
from onnxcast.targets import Chains, Target

__all__ = ["Prices"]


class Prices:
    """Prices of the Casts between float32 and one format, and of what stays float32.

    Args:
        narrow: The format.
        target: Tells how many conversions a Cast takes; one each where it has no table.
        shapes: Of the model; None if all prices are 1.
    """

    def __init__(self, narrow: Format, target: Target, shapes: Shapes | None) -> None:
        self._shapes = shapes
        self._saved = FLOAT32.bits - narrow.bits
        self._down = _bits(target, FLOAT32, narrow)
        self._up = _bits(target, narrow, FLOAT32)

    @property
    def are_bits(self) -> bool:
        """Whether prices are in bits, not in Casts."""
        return self._shapes is not None

    def of(self, value: ir.Value) -> tuple[int, int]:
        """Prices of casting `value` down and up, in bits; a dimension not known counts 1."""
        if self._shapes is None:
            return 1, 1
        count = self._shapes.elements(value)
        return count * self._down, count * self._up

    def wide(self, group: Group) -> int:
        """The price of leaving `group` wide: the bits that it moves beyond the narrow ones."""
        if self._shapes is None:
            return 1
        values = {*group.operand_values(), *group.result_values()}
        return self._saved * sum(map(self._shapes.elements, values))


def _bits(target: Target, source: Format, result: Format) -> int:
    """Bits that the conversions write for one element."""
    chain = Chains(target).find(source, result) if target.casts is not None else None
    return result.bits if chain is None else chain.element_bits
