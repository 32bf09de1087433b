"""Which ops may run in a narrower format so that Casts around them go, without changing a bit.

Before::

    a = Cast <to = 1> (x)          # x is float16
    t = Transpose (a)
    y = Cast <to = 10> (t)

After::

    t = Transpose (x)
    t_float32 = Cast <to = 1> (t)
    y = Cast <to = 10> (t_float32) # a pair that folds

What is read as float32 gets a Cast behind the op. Ops move together with those that they read from
or feed, and only if fewer Casts are left than before and those write no more.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format, contains
from onnxcast.graph.edit import (
    Casts,
    cast_target,
    constant_of,
    move_outputs,
    new_constant,
    numbers_of,
    retype,
)
from onnxcast.graph.shapes import elements
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, model_nodes
from onnxcast.planning.groups import Group, Kind
from onnxcast.planning.legality import Legality
from onnxcast.planning.marks import marked_format, marked_operands
from onnxcast.planning.pins import pinned
from onnxcast.policy import Meaning, commutes, has_meaning, may_commute

__all__ = ["CastMoves", "Move"]

_Use: TypeAlias = tuple[ir.Node, int]
"""A node and the index of an operand."""


@dataclasses.dataclass(frozen=True)
class Move:
    """Ops that can run in a narrower format together.

    Attributes:
        groups: Their type groups, in order.
        source: The narrower format.
        middle: The one that they have.
    """

    groups: tuple[Group, ...]
    source: Format
    middle: Format


class CastMoves:
    """Finds and makes the moves of one model.

    Args:
        types: Its element types.
        folds: Whether a second Cast, given as a node, folds with a first one from the format given.
        keeps: Whether a node has to stay as it is.
    """

    def __init__(
        self,
        types: ElementTypes,
        folds: Callable[[Format, ir.Node], bool],
        keeps: Callable[[ir.Node], bool],
    ) -> None:
        self._types = types
        self._folds = folds
        self._keeps = keeps
        self._legality = Legality(types)
        self._groups: dict[ir.Node, Group] = {}
        # The format whose values a wider value has, and has no others.
        self._origins: dict[ir.Value, Format] = {}

    def find(self, model: ir.Model, casts: Iterable[ir.Node]) -> list[Move]:
        """All moves of `model` that pay, no op in two of them.

        Args:
            model: The model.
            casts: All its Casts.
        """
        if not any(map(_reads_moved, casts)):
            return []
        ends: list[ir.Value] = []
        widened = self._origins.keys()
        for node in model_nodes(model):
            if node.op_type == "Cast" and cast_target(node) is not None:
                self._note_cast(node)
                ends.extend(self._ends(node))
            elif not widened.isdisjoint(node.inputs) and self._may_move(node):
                self._note_group(node)
        return [
            Move(groups, *self._formats(groups[0]))
            for groups in self._together(ends)
            if self._pays(groups)
        ]

    def make(self, model: ir.Model, moves: Iterable[Move]) -> None:
        """Let ops run in the narrower format, with a Cast behind them for all readers outside."""
        casts = Casts(model)
        outputs: dict[ir.Value, ir.Value] = {}
        for move in moves:
            inside = {group.node for group in move.groups}
            results = [value for group in move.groups for value in group.result_values()]
            outside = [(value, list(self._readers(value, inside))) for value in results]
            for group in move.groups:
                self._narrow(group, move, model, casts)
            for value, readers in outside:
                if not (readers or value.is_graph_output()):
                    continue
                assert move.middle.dtype is not None
                wide = casts.of(value, move.middle.dtype)
                for reader, index in readers:
                    reader.replace_input_with(index, wide)
                if value.is_graph_output():
                    outputs[value] = wide
        move_outputs(outputs, casts.names)

    def _note_cast(self, node: ir.Node) -> None:
        source, middle = self._format(node.inputs[0]), self._format(node.outputs[0])
        if source is None or middle is None or source == middle:
            return
        if contains(middle, source):
            self._origins[node.outputs[0]] = source

    def _ends(self, node: ir.Node) -> Iterator[ir.Value]:
        """What a Cast reads, if it would fold with one moved towards it."""
        value = node.inputs[0]
        origin = None if value is None else self._origins.get(value)
        if value is None or origin is None or value.producer() not in self._groups:
            return
        if self._folds(origin, node):
            yield value

    def _may_move(self, node: ir.Node) -> bool:
        """Whether nothing speaks against another format of `node`, which reads a widened value."""
        origins = (self._origins[value] for value in node.inputs if value in self._origins)
        if not any(commutes(node, origin) for origin in origins):  # most, and soonest seen
            return False
        marked = marked_operands(node) or any(marked_format(value) for value in node.outputs)
        return not (marked or pinned(node) or self._keeps(node))

    def _note_group(self, node: ir.Node) -> None:
        group = self._group(node)
        if group is None:
            return
        operands = group.operand_values()
        origins = {self._origins[value] for value in operands if value in self._origins}
        if len(origins) != 1 or not self._type_alike(group):
            return
        (origin,) = origins
        constants = (value for value in operands if value not in self._origins)
        if not commutes(node, origin) or not all(_fits(value, origin) for value in constants):
            return
        # onnxruntime computes what it has no narrow kernel for in float32, and takes a Cast right
        # before that away with its rounding.
        if not has_meaning(node, Meaning.CARRIER) and any(map(_is_cast_twice, operands)):
            return
        if self._legality.why_not(group, origin) is None:
            self._groups[node] = group
            self._origins.update(dict.fromkeys(group.result_values(), origin))

    def _group(self, node: ir.Node) -> Group | None:
        """All operands and results that share the type of the first result."""
        signature = self._types.schemas.signature(node)
        variable = None if signature is None else signature.result(0)
        if signature is None or variable is None or bodies(node):
            return None
        operands = (k for k, v in enumerate(node.inputs) if v is not None)
        alike = tuple(k for k in operands if signature.operand(k) == variable)
        results = tuple(k for k in range(len(node.outputs)) if signature.result(k) == variable)
        return Group(node, variable, alike, results, Kind.SCHEMA, True)

    def _type_alike(self, group: Group) -> bool:
        """Whether the types of `group` are known to be one; a scalar's may have been inferred."""
        values = (*group.operand_values(), *group.result_values())
        return len({self._types.dtype(value) for value in values} - {None}) == 1

    def _together(self, ends: Iterable[ir.Value]) -> Iterator[tuple[Group, ...]]:
        """The groups that lead to `ends`, those that touch one another in one tuple."""
        wanted: dict[ir.Node, None] = {}
        pending = list(ends)
        while pending:
            node = pending.pop().producer()
            if node in self._groups and node not in wanted:
                wanted[node] = None
                pending.extend(self._groups[node].operand_values())
        place = {node: index for index, node in enumerate(self._groups)}
        seen: set[ir.Node] = set()
        for node in sorted(wanted, key=place.__getitem__):
            if node in seen:
                continue
            found, pending_nodes = [], [node]
            seen.add(node)
            while pending_nodes:
                current = pending_nodes.pop()
                found.append(current)
                near = set(self._neighbours(self._groups[current])) & wanted.keys()
                pending_nodes.extend(near - seen)
                seen |= near
            yield tuple(self._groups[each] for each in sorted(found, key=place.__getitem__))

    def _neighbours(self, group: Group) -> Iterator[ir.Node]:
        """Nodes that make the operands of `group`, and groups that its results are operands of."""
        for value in group.operand_values():
            producer = value.producer()
            if producer is not None:
                yield producer
        for value in group.result_values():
            yield from (use[0] for use in value.uses() if self._is_operand(use))

    def _is_operand(self, use: _Use) -> bool:
        node, index = use
        group = self._groups.get(node)
        return group is not None and index in group.operands

    def _readers(self, value: ir.Value, inside: set[ir.Node]) -> Iterator[_Use]:
        """Uses of `value` by others than the groups of `inside`."""
        for use in value.uses():
            if not (use[0] in inside and self._is_operand(use)):
                yield use

    def _pays(self, groups: tuple[Group, ...]) -> bool:
        """Whether fewer Casts are left than before, and those write no more."""
        inside = {group.node for group in groups}
        source, middle = self._formats(groups[0])
        gone: dict[ir.Value, None] = {}
        made: list[ir.Value] = []
        for group in groups:
            for value in group.operand_values():
                free = value.producer() not in inside and not value.is_graph_output()
                if free and value in self._origins and not any(self._readers(value, inside)):
                    gone[value] = None
            for value in group.result_values():
                readers = [node for node, _ in self._readers(value, inside)]
                folded = [node for node in readers if self._folds_behind(node)]
                back = (node.outputs[0] for node in folded)
                gone.update((each, None) for each in back if self._format(each) == source)
                if len(folded) < len(readers) or value.is_graph_output():
                    made.append(value)
        if len(gone) <= len(made):
            return False
        if any(_shape(value) is None for value in (*gone, *made)):
            return True  # each counts as much as any other
        bits = sum(elements(_shape(value)) * self._bits(value) for value in gone)
        return sum(elements(value.shape) for value in made) * middle.bits <= bits

    def _folds_behind(self, node: ir.Node) -> bool:
        return cast_target(node) is not None and any(True for _ in self._ends(node))

    def _formats(self, group: Group) -> tuple[Format, Format]:
        value = group.result_values()[0]
        middle = self._format(value)
        assert middle is not None
        return self._origins[value], middle

    def _bits(self, value: ir.Value) -> int:
        format_ = self._format(value)
        assert format_ is not None
        return format_.bits

    def _format(self, value: ir.Value | None) -> Format | None:
        dtype = self._types.dtype(value)
        return None if dtype is None else formats.of(dtype)

    def _narrow(self, group: Group, move: Move, model: ir.Model, casts: Casts) -> None:
        assert move.source.dtype is not None
        for index, value in zip(group.operands, group.operand_values(), strict=True):
            producer = value.producer()
            if producer in self._groups:
                continue
            if value in self._origins:
                assert producer is not None
                group.node.replace_input_with(index, producer.inputs[0])
                if producer.graph is not None and not (value.uses() or value.is_graph_output()):
                    producer.graph.remove(producer, safe=True)
                continue
            tensor = constant_of(value)
            assert tensor is not None
            name = casts.names.fresh(f"{value.name}_{move.source}")
            narrow = ir.tensor(tensor.numpy().astype(move.source.dtype.numpy()), name=name)
            group.node.replace_input_with(index, new_constant(model, value, narrow, casts.names))
        for value in group.result_values():
            retype(value, move.source.dtype)


def _shape(value: ir.Value) -> ir.Shape | None:
    """The shape of `value`; of a Cast's result that is the one of its operand."""
    node = value.producer()
    if value.shape is not None or node is None or cast_target(node) is None:
        return value.shape
    return None if node.inputs[0] is None else node.inputs[0].shape


def _is_cast_twice(value: ir.Value) -> bool:
    cast = value.producer()
    first = None if cast is None or cast.inputs[0] is None else cast.inputs[0].producer()
    return cast is not None and first is not None and None not in map(cast_target, (cast, first))


def _reads_moved(cast: ir.Node) -> bool:
    """Whether a Cast may move past what makes the operand of `cast`, by the op alone."""
    value = cast.inputs[0]
    producer = None if value is None else value.producer()
    return producer is not None and may_commute(producer)


def _fits(value: ir.Value, format_: Format) -> bool:
    """Whether `value` is a single constant number of `format_`."""
    number = numbers_of(value, 1)
    if number is None or number.size != 1 or format_.dtype is None:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        back = number.astype(format_.dtype.numpy()).astype(number.dtype)
    return number.tobytes() == back.tobytes()
