"""What Casts cost on a target: bits that all conversions of a chain write, or one for each Cast."""

from collections.abc import Iterable

import onnx_ir as ir

from onnxcast.formats import FLOAT32, Format
from onnxcast.graph.shapes import elements
from onnxcast.targets import Chains, Target

__all__ = ["Prices"]


class Prices:
    """Prices of the Casts between float32 and one format.

    Args:
        values: All that may be cast. If the rank of any is unknown, each Cast costs 1.
        narrow: The format.
        target: Tells how many conversions a Cast takes; one each where it has no table.
    """

    def __init__(self, values: Iterable[ir.Value], narrow: Format, target: Target) -> None:
        self._by_count = any(value.shape is None for value in values)
        self._down = _bits(target, FLOAT32, narrow)
        self._up = _bits(target, narrow, FLOAT32)

    def of(self, value: ir.Value) -> tuple[int, int]:
        """Prices of casting `value` down and up, in bits; a dimension not known counts 1."""
        if self._by_count:
            return 1, 1
        count = elements(value.shape)
        return count * self._down, count * self._up


def _bits(target: Target, source: Format, narrow: Format) -> int:
    """Bits that the conversions write for one element."""
    chain = Chains(target).find(source, narrow) if target.casts is not None else None
    return narrow.bits if chain is None else chain.element_bits
