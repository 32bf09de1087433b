"""Small constants that keep a divisor from zero, and how far what they guard may go.

Before::

    n = ReduceL2 (x)
    g = Clip (n, 1e-12)
    y = Div (x, g)

A row of zeros leaves 1e-12 in ``g``. float16 has no such number, so neither the guard nor what
reads it may be narrow: the row would come out as 0 / 0. Through roots, powers and reciprocals the
guard's value is followed (1 / sqrt(1e-12) is beyond float16 as well), until it meets other data.
"""

import math
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import numbers_of
from onnxcast.graph.walk import op_name
from onnxcast.planning.cones import Pins
from onnxcast.planning.groups import Group
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Meaning, has_meaning

__all__ = ["guard_pins"]

# A guard that rounding moves by more is another guard.
_LARGEST_RELATIVE_ERROR = 2.0**-6

# Where a guard may be among the operands.
_GUARDS = {"Add": (0, 1), "Max": (0, 1), "Clip": (1,)}


def guard_pins(groups: Iterable[Group], narrow: Format) -> Pins:
    """Nodes that read a value which a guard may leave at a magnitude that `narrow` lacks.

    Args:
        groups: In topological order of their nodes.
        narrow: The format that would be used.
    """
    pins: Pins = {}
    guarded: dict[ir.Value, float] = {}
    for group in groups:
        node = group.node
        extreme = _guard(node) if node.op_type in _GUARDS else None
        value = None
        if guarded:
            value = next(filter(guarded.__contains__, group.operand_values()), None)
        if value is not None:
            magnitude = guarded[value]
            if _needs(node, value, magnitude) and not _holds(narrow, magnitude):
                reason = Reason.VANISHING if magnitude < 1 else Reason.OUT_OF_RANGE
                pins[node] = (reason, f"{value.name} may be {magnitude:.3g}")
            extreme = _through(node, value, magnitude)
        if extreme is not None and 0 < extreme < math.inf:
            guarded.update((result, extreme) for result in group.result_values())
    return pins


def _needs(node: ir.Node, value: ir.Value, magnitude: float) -> bool:
    """Whether `node` is at a loss without the guard, or overflows with its inverse."""
    if _moves(node):
        return False
    if magnitude > 1 or _through(node, value, magnitude) is not None:
        return True
    return op_name(node) == "Log" or (op_name(node) == "Div" and node.inputs[1] is value)


def _moves(node: ir.Node) -> bool:
    return has_meaning(node, Meaning.CARRIER) or has_meaning(node, Meaning.METADATA)


def _holds(narrow: Format, magnitude: float) -> bool:
    rounded = float(formats.round_to(np.array([magnitude]), narrow)[0])
    return bool(abs(rounded - magnitude) <= _LARGEST_RELATIVE_ERROR * magnitude)


def _guard(node: ir.Node) -> float | None:
    """The least that a small constant leaves of `node`'s result; None if there is no such one."""
    for index in _GUARDS.get(op_name(node), ()):
        number = _number(node, index)
        if number is not None and 0 < number < 1:
            return number
    return None


def _number(node: ir.Node, index: int) -> float | None:
    """Operand `index`, if it is a constant of one element."""
    numbers = numbers_of(node.inputs[index], 1) if index < len(node.inputs) else None
    return None if numbers is None or not numbers.size else float(numbers.reshape(()))


def _through(node: ir.Node, value: ir.Value, magnitude: float) -> float | None:
    """What `node` makes of a guarded `magnitude`; None if other data decides."""
    if _moves(node):
        return magnitude
    power = _power(node) if node.inputs[0] is value else None
    if power is not None:
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(magnitude) ** power)
    if op_name(node) not in ("Mul", "Div"):
        return None
    first = node.inputs[0] is value
    factor = abs(_number(node, 1 if first else 0) or 0.0)
    if not factor:
        return None
    if op_name(node) == "Mul":
        return magnitude * factor
    return magnitude / factor if first else factor / magnitude


def _power(node: ir.Node) -> float | None:
    """The exponent of a power, a root or a reciprocal."""
    known = {"Sqrt": 0.5, "Reciprocal": -1.0}
    return _number(node, 1) if op_name(node) == "Pow" else known.get(op_name(node))
