"""Regions of a graph that stay wide because of what their values are, found without data.

- *Integer-valued cone*: from a Cast from an integer type that the narrow format does not contain,
  through data movement and whole-number arithmetic, and no further; the arguments of Sin and Cos
  back to such a cone through one multiplication; backwards from a Cast to an integer type.
- *Statistics*: squares in front of a sum, and what is done to a sum before it meets other data.
- *Residues*: what a rounding that the model does itself left over, and what is done to that.
- *Amplified operands*: the element-wise arithmetic in front of a logarithm or a reciprocal, with
  the bounded function that it begins with.
"""

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format, Kind
from onnxcast.graph.edit import cast_target, constant_of, numbers_of
from onnxcast.graph.truth import is_comparison
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, op_name
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Meaning, has_meaning

__all__ = ["Meanings", "Pins", "integer_pins", "statistics_pins"]

Pins = dict[ir.Node, tuple[Reason, str]]

# For what data movement alone made: the value that was moved.
_Origins = dict[ir.Value, ir.Value]

Meanings = Collection[Meaning]
"""What a node means, all of it."""

_INTEGER_KINDS = (Kind.SIGNED, Kind.UNSIGNED)


def _floats(node: ir.Node, types: ElementTypes) -> Iterator[ir.Value]:
    """The float32 operands of `node`."""
    for value in node.inputs:
        if value is not None and types.dtype(value) == ir.DataType.FLOAT:
            yield value


def _is_integer(dtype: ir.DataType | None) -> bool:
    return dtype is not None and formats.of(dtype).kind in _INTEGER_KINDS


def _whole(value: ir.Value) -> bool:
    """Whether `value` is a constant of whole numbers (small ones: large ones are weights)."""
    numbers = numbers_of(value, 1024)
    if numbers is None:
        return False
    array = np.asarray(numbers, dtype=np.float64)
    return bool(np.isfinite(array).all() and (array == np.rint(array)).all())


def integer_pins(
    nodes: Iterable[tuple[ir.Node, Meanings]], types: ElementTypes, narrow: Format
) -> Pins:
    """Nodes that compute with whole numbers which `narrow` cannot count.

    Args:
        nodes: In topological order, each with what it means.
        types: Element types of all values.
        narrow: The format that would be used.
    """
    pins: Pins = {}
    cone: set[ir.Value] = set()
    origins: _Origins = {}
    casts: list[ir.Node] = []
    for node, held in nodes:
        to = cast_target(node)
        if _is_integer(to) or to == ir.DataType.BOOL or is_comparison(node):
            casts.append(node)
        origin = _starts_cone(node, held, to, types, narrow)
        if origin or _stays_whole(node, held, cone, types):
            cone.update(node.outputs)
            if origin or Meaning.INTEGERS in held:
                pins[node] = (Reason.INTEGER_VALUED, origin or f"from {_operands(node)}")
        _trace(node, held, origins, cone)
        for cause in _phase(node, held, cone, origins):
            pins[cause] = (Reason.INTEGER_VALUED, f"phase of {label(node)}")
    seen: set[ir.Node] = set()
    for node in casts:
        for source in _arithmetic_behind(node, types, seen):
            told = f"tested by {label(node)}" if is_comparison(node) else f"becomes {label(node)}"
            pins.setdefault(source, (Reason.INTEGER_VALUED, told))
    return pins


def _starts_cone(
    node: ir.Node, held: Meanings, to: ir.DataType | None, types: ElementTypes, narrow: Format
) -> str:
    """What makes the result of `node`, cast to `to`, a large whole number; "" if nothing does."""
    if Meaning.COUNTING in held:
        return Meaning.COUNTING.value
    if to != ir.DataType.FLOAT:
        return ""
    source = types.dtype(node.inputs[0])
    if source is None or not _is_integer(source) or formats.contains(narrow, formats.of(source)):
        return ""
    return f"cast from {formats.of(source).name}"


def _stays_whole(node: ir.Node, held: Meanings, cone: set[ir.Value], types: ElementTypes) -> bool:
    if not cone or not (Meaning.CARRIER in held or Meaning.INTEGERS in held):
        return False
    if cone.isdisjoint(node.inputs):
        return False
    operands = list(_floats(node, types))
    inside = [value in cone for value in operands]
    return any(inside) and all(
        known or _whole(value) for known, value in zip(inside, operands, strict=True)
    )


def _operands(node: ir.Node) -> str:
    return ", ".join(value.name or "" for value in node.inputs if value is not None)


def _phase(node: ir.Node, held: Meanings, cone: set[ir.Value], origins: _Origins) -> list[ir.Node]:
    """A sine or cosine of the cone and the one multiplication between; else nothing."""
    if Meaning.PERIODIC not in held:
        return []
    origin = _origin(node.inputs[0], origins)
    if origin in cone:
        return [node]
    product = None if origin is None else origin.producer()
    if product is None or not (op_name(product) == "Mul" or has_meaning(product, Meaning.MATMUL)):
        return []
    counted = any(_origin(value, origins) in cone for value in product.inputs)
    return [node, product] if counted else []


def _trace(
    node: ir.Node, held: Meanings, origins: _Origins, ends: Collection[ir.Value] = ()
) -> None:
    """Note where the results of a carrier come from; results in `ends` come from nowhere else."""
    if Meaning.CARRIER not in held:
        return
    origin = _origin(_moved(node), origins)
    if origin is not None:
        origins.update((output, origin) for output in node.outputs if output not in ends)


def _origin(value: ir.Value | None, origins: _Origins) -> ir.Value | None:
    return None if value is None else origins.get(value, value)


def _moved(carrier: ir.Node) -> ir.Value | None:
    """The first operand whose elements `carrier` moves; the condition of a Where is none."""
    return carrier.inputs[1 if carrier.op_type == "Where" else 0]


def _arithmetic_behind(node: ir.Node, types: ElementTypes, seen: set[ir.Node]) -> Iterator[ir.Node]:
    """Element-wise arithmetic that, with data movement, alone stands behind `node`'s operands.

    Nodes in `seen` are left out, and all found are added to it.
    """
    pending = [node]
    while pending:
        for value in _floats(pending.pop(), types):
            producer = value.producer()
            if producer is None or producer in seen:
                continue
            if has_meaning(producer, Meaning.ELEMENTWISE):
                yield producer
            elif not has_meaning(producer, Meaning.CARRIER):
                continue
            seen.add(producer)
            pending.append(producer)


def statistics_pins(nodes: Iterable[tuple[ir.Node, Meanings]], types: ElementTypes) -> Pins:
    """Nodes of sums, means and norms written out, and the arithmetic that a logarithm magnifies.

    Args:
        nodes: In topological order, each with what it means.
        types: Element types of all values.
    """
    pins: Pins = {}
    sums: set[ir.Value] = set()  # and residues
    origins: _Origins = {}
    amplified: set[ir.Node] = set()
    for node, held in nodes:
        if _is_residue(node):
            sums.update(node.outputs)
            pins[node] = (Reason.RESIDUE, label(node))
        elif Meaning.ACCUMULATING in held:
            sums.update(node.outputs)
        elif _only(node, held, sums, types):
            sums.update(node.outputs)
            if Meaning.ELEMENTWISE in held:
                pins.setdefault(node, (Reason.STATISTICS, f"from {_operands(node)}"))
        _trace(node, held, origins)
        for source in _squares_behind(node, held, types, origins):
            pins[source] = (Reason.STATISTICS, f"squares summed by {label(node)}")
        for source in _magnified(node, held, types, amplified):
            pins[source] = (Reason.AMPLIFYING, f"read by {label(node)}")
    return pins


def _only(node: ir.Node, held: Meanings, sums: set[ir.Value], types: ElementTypes) -> bool:
    """Whether `node` computes or moves, element by element, nothing but sums and constants."""
    if not sums or not (Meaning.ELEMENTWISE in held or Meaning.CARRIER in held):
        return False
    if sums.isdisjoint(node.inputs):
        return False
    operands = list(_floats(node, types))
    return any(value in sums for value in operands) and all(
        value in sums or constant_of(value) is not None for value in operands
    )


def _is_residue(node: ir.Node) -> bool:
    """Whether `node` subtracts a value and a rounded copy of it: what is left is the rounding."""
    if node.op_type != "Sub" or node.domain != "":
        return False
    left, right = node.inputs[0], node.inputs[1]
    return left is not right and (_before_casts(left) is right or _before_casts(right) is left)


def _before_casts(value: ir.Value | None) -> ir.Value | None:
    """The value that a chain of Casts ending in `value` begins with."""
    producer = None if value is None else value.producer()
    while producer is not None and cast_target(producer) is not None:
        value = producer.inputs[0]
        producer = None if value is None else value.producer()
    return value


def _is_square(node: ir.Node) -> bool:
    if op_name(node) == "Mul":
        return node.inputs[0] is node.inputs[1]
    return op_name(node) == "Pow"


def _squares_behind(
    node: ir.Node, held: Meanings, types: ElementTypes, origins: _Origins
) -> Iterator[ir.Node]:
    """The squares that `node` sums, moved or not; nothing if it is no sum."""
    if Meaning.ACCUMULATING not in held:
        return
    for value in _floats(node, types):
        producer = origins.get(value, value).producer()
        if producer is not None and _is_square(producer):
            yield producer


def _magnified(
    node: ir.Node, held: Meanings, types: ElementTypes, seen: set[ir.Node]
) -> Iterator[ir.Node]:
    """The chain of arithmetic with constants in front of `node`, if that magnifies errors.

    A function with bounded results ends the chain and belongs to it: near its bound it has less
    than the narrow format can tell apart (the logarithm of a Softmax, or of one minus a Sigmoid).
    Stops at a node in `seen`, and adds all that it looks at: one may stand in front of many.
    """
    value = node.inputs[0] if Meaning.AMPLIFYING in held else None
    producer = None if value is None else value.producer()
    while producer is not None and producer not in seen:
        seen.add(producer)
        moving = {v for v in _floats(producer, types) if constant_of(v) is None}
        bounded = has_meaning(producer, Meaning.BOUNDED)
        if not bounded and (len(moving) != 1 or not has_meaning(producer, Meaning.ELEMENTWISE)):
            return
        yield producer
        producer = None if bounded else moving.pop().producer()
