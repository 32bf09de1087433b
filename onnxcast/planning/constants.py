"""Constants that a narrow format cannot hold, and how far their size spreads.

A finite constant never becomes infinite: an op that reads one beyond the format's range stays
wide, and so does what reads its result, as long as that may be as large. The size is followed
through multiplication and division by constants and ends at ops with bounded results.
"""

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.files import WeightRange, weight_range
from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import op_name
from onnxcast.planning.cones import Pins
from onnxcast.planning.groups import Group
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Meaning, has_meaning

__all__ = ["constant_pins"]

# A one-element constant that rounding moves by more is a guard or scale whose meaning would change.
# The formats' own rounding error is below 2**-9 for all values in their normal range.
_LARGEST_RELATIVE_ERROR = 2.0**-6


class _Magnitudes:
    """Largest finite magnitudes: of constants, and of values that came from too large ones."""

    def __init__(self, types: ElementTypes, narrow: Format) -> None:
        self._types = types
        self._narrow = narrow
        self._ranges: dict[ir.Value, WeightRange] = {}
        self.large: dict[ir.Value, float] = {}

    def is_usual(self, value: ir.Value) -> bool:
        """Whether nothing is known of `value` that would keep a node wide, or spread from it."""
        if value in self.large:
            return False
        # To see that a value is computed takes less than to see that it has no range.
        producer = value.producer()
        computed = producer is not None and producer.op_type != "Constant"
        known = None if computed else self._range(value)
        if known is None:
            return True
        if known.has_nonfinite and not self._narrow.has_inf:
            return False
        return known.finite_absmax == 0 or self.normal(known.finite_absmax)

    def constant(self, value: ir.Value) -> float | None:
        """Largest finite magnitude in a float32 constant; None if `value` is computed."""
        measured = self._range(value)
        return None if measured is None else measured.finite_absmax

    def smallest(self, value: ir.Value) -> float | None:
        """Smallest magnitude above 0 in a float32 constant; None if `value` is computed."""
        measured = self._range(value)
        return None if measured is None else measured.smallest_nonzero

    def _range(self, value: ir.Value) -> WeightRange | None:
        known = self._ranges.get(value)
        if known is None:
            tensor = constant_of(value)
            if tensor is None or tensor.dtype != ir.DataType.FLOAT:
                return None
            known = self._ranges[value] = weight_range(tensor)
        return known

    def too_large(self, magnitude: float) -> bool:
        """Whether rounding a number of this magnitude gives infinity."""
        return magnitude > self._narrow.max and not np.isfinite(self.rounded(magnitude))

    def infinite(self, value: ir.Value) -> bool:
        """Whether a float32 constant holds infinities or NaN."""
        measured = self._range(value)
        return measured is not None and measured.has_nonfinite

    def normal(self, magnitude: float) -> bool:
        """Whether the narrow format holds numbers of this magnitude with its full precision."""
        return 2.0**self._narrow.emin <= magnitude <= self._narrow.max

    def rounded(self, magnitude: float) -> float:
        """`magnitude` in the narrow format."""
        return float(formats.round_to(np.array([magnitude]), self._narrow, saturate=False)[0])


def constant_pins(groups: Iterable[Group], types: ElementTypes, narrow: Format) -> Pins:
    """Nodes that read, or whose operands carry, a constant that `narrow` cannot hold.

    Args:
        groups: In topological order of their nodes. Operands that no result shares its type with
            (scales, statistics) would not be narrowed and do not count.
        types: Element types of all values.
        narrow: The format that would be used.
    """
    pins: Pins = {}
    sizes = _Magnitudes(types, narrow)
    for group in groups:
        if not (group.operands and group.results):
            continue
        node, floats = group.node, group.operand_values()
        if all(map(sizes.is_usual, floats)):
            continue
        vanishing = next((value for value in floats if _vanishes(value, sizes)), None)
        if vanishing is not None:
            pins[node] = (Reason.VANISHING, f"{vanishing.name} = {sizes.constant(vanishing):.3g}")
        if not narrow.has_inf:
            infinite = next((value for value in floats if sizes.infinite(value)), None)
            if infinite is not None:
                pins[node] = (Reason.OUT_OF_RANGE, f"{infinite.name} holds what is not finite")
        largest = _follow(node, floats, sizes)
        if largest is not None:
            pins[node] = (Reason.OUT_OF_RANGE, f"{largest.name} up to {_size(largest, sizes):.3g}")
    return pins


def _size(value: ir.Value, sizes: _Magnitudes) -> float:
    return max(sizes.constant(value) or 0.0, sizes.large.get(value, 0.0))


def _vanishes(value: ir.Value, sizes: _Magnitudes) -> bool:
    magnitude = sizes.constant(value)
    if not magnitude or sizes.normal(magnitude):
        return False
    rounded = sizes.rounded(magnitude)
    if rounded == 0:
        return True
    tensor = constant_of(value)
    single = tensor is not None and tensor.size == 1 and np.isfinite(rounded)
    return single and abs(rounded - magnitude) > _LARGEST_RELATIVE_ERROR * magnitude


def _follow(node: ir.Node, floats: list[ir.Value], sizes: _Magnitudes) -> ir.Value | None:
    """The operand of `node` that is too large, if any; notes how large its results may be."""
    largest = max(floats, key=lambda value: _size(value, sizes))
    size = _size(largest, sizes)
    if not sizes.too_large(size):
        return None
    if not has_meaning(node, Meaning.BOUNDED):
        if has_meaning(node, Meaning.LIMITING):  # a limit is no size, what it limits is
            size = max(sizes.large.get(value, 0.0) for value in floats)
        size = _scaled(node, size, largest, sizes)
        if sizes.too_large(size):
            sizes.large.update((output, size) for output in node.outputs)
    return largest


def _scaled(node: ir.Node, size: float, largest: ir.Value, sizes: _Magnitudes) -> float:
    """Size of a result: another after multiplication or division by a constant."""
    if op_name(node) not in ("Mul", "Div") or node.inputs[0] is None or node.inputs[1] is None:
        return size
    left, right = node.inputs[0], node.inputs[1]
    if node.op_type == "Div" and largest is right:
        # Dividing by something large makes smaller, whatever the other operand's origin.
        numerator = sizes.large.get(left)
        return 0.0 if numerator is None else numerator / size
    if node.op_type == "Div":
        divisor = sizes.smallest(right)
        return size if divisor is None else size / divisor
    factor = sizes.constant(right if largest is left else left)
    return size * factor if factor else size
