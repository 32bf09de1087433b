"""Placement: put Casts so that a plan holds, one per value, format and scope.

A value that becomes narrow is cast up for its wide readers; a wide value is cast down for its
narrow readers, right after its producer, and up again where a reader computes in float32 on rounded
operands. From one narrow format to another it goes by way of float32. One-element constants are
rewritten instead: initializers in place, or as a new constant if others read them. What control
flow hands in and out becomes narrow as a whole. Graph outputs keep their names and types.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.formats import Format
from onnxcast.graph.edit import (
    Casts,
    constant_of,
    move_outputs,
    new_constant,
    retype,
    set_constant,
)
from onnxcast.graph.findings import finding_about
from onnxcast.graph.opsets import import_onnx
from onnxcast.graph.ties import Exit
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import Contents, contents
from onnxcast.planning.groups import Group
from onnxcast.planning.marks import carry_out_marks
from onnxcast.planning.plan import Decision, Form, Plan
from onnxcast.planning.storage import Rounded

__all__ = ["Placed", "Store", "carry_out"]

_FLOAT = ir.DataType.FLOAT


Store: TypeAlias = Callable[
    [ir.Model, Mapping[ir.Value, ir.DataType]], Mapping[ir.Value, Diagnostic]
]
"""Stores constants in other types, as far as it may, with a finding for each that it did."""


class Placed(NamedTuple):
    """What carrying out a plan did.

    Attributes:
        findings: One per Cast added and per constant stored.
        modified: Whether anything changed.
        types: The element types of values that are new, or have another one than before.
    """

    findings: list[Diagnostic]
    modified: bool
    types: Mapping[ir.Value, ir.DataType]


def carry_out(model: ir.Model, plan: Plan, store: Store | None = None) -> Placed:
    """Change `model` so that `plan` holds.

    Args:
        model: What the plan is for.
        plan: What is wanted.
        store: Does without Casts what it can; None to cast all.
    """
    found = contents(model)
    placer = _Placer(model, plan.types, found)
    cast = [(group, each) for group, each in plan.narrow() if each.form is not Form.MARKED]
    for format_ in dict.fromkeys(decision.format for _, decision in cast):
        import_onnx(model, _dtype(format_))
    numbers, weights = _read_alike(cast)
    placer.rewrite(numbers)
    stored = {} if store is None else store(model, weights)
    placer.stored({value: weights[value] for value in stored})
    for group, decision in cast:
        for value in group.result_values() if decision.gives else ():
            placer.narrow(value, decision.format)
    for group, decision in cast:
        for exit_ in group.exits if decision.gives else ():
            placer.give_narrow(exit_, decision.format)
        for index in decision.reads:
            if decision.form is Form.NATIVE:
                placer.read_narrow(group.node, index, decision.format)
            else:
                import_onnx(model, _dtype(decision.read_in(index)))
                placer.read_rounded(group.node, index, decision.read_in(index))
    placer.read_wide()
    changed = carry_out_marks(model, plan, found[1]) or placer.changed
    findings = [*map(_finding, placer.casts.added), *stored.values()]
    return Placed(findings, changed, placer.types())


def _read_alike(
    cast: Iterable[tuple[Group, Decision]],
) -> tuple[dict[ir.Value, ir.DataType], dict[ir.Value, ir.DataType]]:
    """Float32 initializers whose every reader reads them in one narrow type.

    Returns:
        Those of one element, and the others.
    """
    reads: dict[ir.Value, list[ir.DataType]] = {}
    for group, decision in cast:
        inputs = group.node.inputs
        for index in decision.reads if decision.form is Form.NATIVE else ():
            value = inputs[index]
            if value is not None and value.is_initializer():
                reads.setdefault(value, []).append(_dtype(decision.format))
    numbers: dict[ir.Value, ir.DataType] = {}
    weights: dict[ir.Value, ir.DataType] = {}
    for value, dtypes in reads.items():
        tensor = constant_of(value)
        is_alike = len(set(dtypes)) == 1 and len(dtypes) == len(value.uses())
        if not is_alike or value.is_graph_output() or tensor is None or tensor.dtype != _FLOAT:
            continue
        (numbers if tensor.size == 1 else weights)[value] = dtypes[0]
    return numbers, weights


def _finding(node: ir.Node) -> Diagnostic:
    source, result = node.inputs[0], node.outputs[0]
    assert source is not None
    message = f"{source.name} cast to {result.name}"
    return finding_about(node, Code.CAST_ADDED, message)


def _dtype(format_: Format) -> ir.DataType:
    assert format_.dtype is not None, "a format without an element type has no Cast"
    return format_.dtype


class _Placer:
    def __init__(self, model: ir.Model, types: ElementTypes, found: Contents) -> None:
        self.casts = Casts(model, found)
        self.changed = False
        self._model = model
        self._rounded = Rounded(self.casts, types)
        self._narrow: dict[ir.Value, ir.DataType] = {}
        self._satisfied: dict[ir.Node, int] = {}  # the operands that are, as bits
        self._given: set[Exit] = set()
        self._stored: dict[ir.Value, ir.DataType] = {}
        self._constants: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def stored(self, dtypes: Mapping[ir.Value, ir.DataType]) -> None:
        """Note that constants are stored in the types that they are read in."""
        self._stored.update(dtypes)
        self.changed |= bool(dtypes)

    def rewrite(self, dtypes: Mapping[ir.Value, ir.DataType]) -> None:
        """Round one-element initializers in place to the types that they are read in."""
        for dtype in dict.fromkeys(dtypes.values()):
            values = [value for value, each in dtypes.items() if each == dtype]
            tensors = [tensor for tensor in map(constant_of, values) if tensor is not None]
            # All at once: to round them one by one takes as long as all else that is done here.
            wide = np.concatenate([tensor.numpy().reshape(-1) for tensor in tensors])
            rounded = formats.to_storage(wide, formats.of(dtype))
            for value, tensor, number in zip(values, tensors, rounded, strict=True):
                set_constant(value, _with_number(tensor, number, dtype))
        self.stored(dtypes)

    def types(self) -> dict[ir.Value, ir.DataType]:
        """The element types of all that is new or has another one."""
        constants = {value: dtype for (_, dtype), value in self._constants.items()}
        return {**self._narrow, **self._stored, **self.casts.types, **constants}

    def narrow(self, value: ir.Value, format_: Format) -> None:
        """Note that `value`, a result, is produced in `format_` now."""
        self._narrow[value] = _dtype(format_)
        self.changed = True

    def read_narrow(self, node: ir.Node, index: int, format_: Format) -> None:
        """Let operand `index` of `node` be read in `format_`."""
        value, dtype = node.inputs[index], _dtype(format_)
        assert value is not None
        self._satisfied[node] = self._satisfied.get(node, 0) | 1 << index
        if value in self._stored or self._narrow.get(value, _FLOAT) == dtype:
            return
        constant = self._constant(value, format_, dtype)
        node.replace_input_with(index, constant or self._low(value, format_))
        self.changed = True

    def give_narrow(self, exit_: Exit, format_: Format) -> None:
        """Let a body give this output in `format_`."""
        body, index = exit_
        value = body.outputs[index]
        if self._narrow.get(value, _FLOAT) != _dtype(format_):
            body.outputs[index] = self._low(value, format_)
        self._given.add(exit_)
        self.changed = True

    def read_rounded(self, node: ir.Node, index: int, format_: Format) -> None:
        """Let operand `index` of `node`, which computes in float32, hold values of `format_`."""
        value = node.inputs[index]
        assert value is not None
        if value in self._narrow:
            # It is cast up like for any other wide reader, and rounded if it is of another format.
            if formats.contains(format_, formats.of(self._narrow[value])):
                return
            value = self.casts.of(value, _FLOAT)
        if self._rounded.is_rounded(value, format_):
            return
        constant = self._constant(value, format_, _FLOAT)
        if constant is value:
            return
        node.replace_input_with(index, constant or self._rounded.up(value, format_))
        self.changed = True

    def _low(self, value: ir.Value, format_: Format) -> ir.Value:
        """`value` cast to `format_`: from another narrow format by way of float32."""
        wide = self.casts.of(value, _FLOAT) if value in self._narrow else value
        return self._rounded.low(wide, format_)

    def read_wide(self) -> None:
        """Cast narrow values up for every reader that stays wide, and for graph outputs."""
        moves: dict[ir.Value, ir.Value] = {}
        outputs = self._wide_outputs()
        for value, dtype in self._narrow.items():
            readers = [use for use in value.uses() if not self._is_satisfied(*use)]
            retype(value, dtype)
            if not (readers or value in outputs):
                continue
            wide = self.casts.of(value, _FLOAT)
            wide.type = ir.TensorType(_FLOAT) if value.type is not None else None
            for node, index in readers:
                if node is not wide.producer():
                    node.replace_input_with(index, wide)
            if value in outputs:
                moves[value] = wide
        move_outputs(moves, self.casts.names, self._given)

    def _is_satisfied(self, node: ir.Node, index: int) -> bool:
        return bool(self._satisfied.get(node, 0) >> index & 1)

    def _wide_outputs(self) -> set[ir.Value]:
        """Values that became narrow and are outputs of graphs that give them wide."""
        graphs = {value.graph for value in self._narrow if value.is_graph_output()}
        return {
            output
            for graph in graphs
            for index, output in enumerate(graph.outputs if graph is not None else ())
            if output in self._narrow and (graph, index) not in self._given
        }

    def _constant(self, value: ir.Value, format_: Format, dtype: ir.DataType) -> ir.Value | None:
        """A one-element constant rounded to `format_`, stored as `dtype`; `value` if it is that.

        None if `value` is anything else.
        """
        key = (value, dtype)
        if key not in self._constants:
            tensor = constant_of(value)
            if tensor is None or tensor.size != 1 or tensor.dtype != _FLOAT:
                return None
            array = tensor.numpy()
            if dtype == _FLOAT:
                rounded = formats.round_to(array, format_)
                if np.array_equal(rounded, array, equal_nan=True):
                    return value
            else:
                rounded = formats.to_storage(array, formats.of(dtype))
            name = self.casts.names.fresh(f"{value.name}_{format_.name}")
            # Not the shorthand `ir.tensor`, which takes longer than all of the above.
            narrow = ir.Tensor(rounded, dtype=dtype, name=name)
            self._constants[key] = new_constant(self._model, value, narrow, self.casts.names)
        return self._constants[key]


def _with_number(tensor: ir.TensorProtocol, number: Any, dtype: ir.DataType) -> ir.Tensor[Any]:
    """`tensor`, of one element, with another: a `number` in the storage of `dtype`."""
    return ir.Tensor(
        np.full(tensor.shape.numpy(), number),
        dtype=dtype,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props) or None,
    )
