"""Store a constant in the narrow type if all its readers are one and the same narrowing Cast.

Before::

    <float[2,2] W = {...}>
    W_float16 = Cast <to = 10> (W)
    y = MatMul (x, W_float16)

After::

    <float16[2,2] W = {...}>
    y = MatMul (x, W)

A small constant that others read in its own type is stored once more. Bit-exact with respect to the
Cast that it absorbs; weights are narrowed when they are written, not here. Initializers and
Constant nodes of every scope are visited. Seed: shrinkTensor.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.files import NarrowedTensor, weight_range
from onnxcast.graph.edit import (
    Names,
    absorb_casts,
    cast_target,
    constant_of,
    is_plain_cast,
    new_constant,
    set_constant,
)
from onnxcast.graph.schemas import Schemas
from onnxcast.graph.walk import model_graphs
from onnxcast.planning import is_copied

__all__ = ["ShrinkGuard", "ShrinkInitializersPass"]


class ShrinkGuard(enum.Enum):
    """Why a constant that a narrowing Cast reads stays as it is."""

    GRAPH_INPUT = "is a graph input, which may be fed another value"
    GRAPH_OUTPUT = "is a graph output"
    OPAQUE_READER = "is read by an op without a known schema, or by a call"
    READ_WIDE = "is read in its own type as well"
    SEVERAL_FORMATS = "is read in more than one narrow format"
    OUT_OF_RANGE = "holds a finite number that would become infinite"
    SHARED_STORAGE = "shares its data with a constant that stays as it is"


class ShrinkInitializersPass(ir.passes.InPlacePass):
    """Absorbs narrowing Casts into the constants that they read.

    Attributes:
        tensor_shrink: Original bytes of all constants narrowed so far in this process.
        findings: One per constant that the last call narrowed or left alone, with the guard.
    """

    tensor_shrink: ClassVar[int] = 0

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Visit every constant of every scope of `model`."""
        self.findings = []
        schemas = Schemas(model)
        constants = list(_constants(model))
        casts = {value: list(filter(_narrows, value.consumers())) for value in constants}
        guards = {value: _guard(value, each, schemas) for value, each in casts.items() if each}
        _guard_shared(guards, constants, casts)
        names = Names(model) if any(guards.values()) else None
        absorb_casts({value: casts[value] for value, guard in guards.items() if guard is None})
        for value, guard in guards.items():
            if guard is None:
                self._shrink(value, casts[value][0])
            elif names is None or not self._copy(model, value, guard, names):
                self._note(Code.INITIALIZER_KEPT, value, guard.value)
        changes = (Code.INITIALIZER_SHRUNK, Code.INITIALIZER_COPIED)
        changed = any(finding.code in changes for finding in self.findings)
        return ir.passes.PassResult(model, changed)

    def _copy(self, model: ir.Model, value: ir.Value, guard: ShrinkGuard, names: Names) -> bool:
        """Store small constants once more for each format; return whether there are such."""
        tensor = constant_of(value)
        if tensor is None or guard is not ShrinkGuard.READ_WIDE or not is_copied(tensor):
            return False
        casts: dict[ir.DataType, list[ir.Node]] = {}
        for node in value.consumers():
            dtype = cast_target(node)
            if dtype is None or not _narrows(node) or node.outputs[0].is_graph_output():
                continue
            if not _overflows(tensor, formats.of(dtype)):
                casts.setdefault(dtype, []).append(node)
        for dtype, nodes in casts.items():
            name = names.fresh(nodes[0].outputs[0].name or "")
            copy = new_constant(model, value, NarrowedTensor(tensor, dtype, name=name), names)
            absorb_casts({copy: nodes})
            message = f"stored as {formats.of(dtype).name} too, as it {guard.value}"
            self._note(Code.INITIALIZER_COPIED, value, message)
        return bool(casts)

    def _shrink(self, value: ir.Value, cast: ir.Node) -> None:
        """Store `value` as `cast` would give it."""
        tensor, dtype = constant_of(value), cast_target(cast)
        assert tensor is not None
        assert dtype is not None
        narrow = NarrowedTensor(tensor, dtype)
        set_constant(value, narrow)
        before = narrow.size * tensor.dtype.bitwidth // 8
        ShrinkInitializersPass.tensor_shrink += before
        message = f"stored as {formats.of(dtype).name}, {before - narrow.nbytes} bytes less"
        self._note(Code.INITIALIZER_SHRUNK, value, message)

    def _note(self, code: Code, value: ir.Value, message: str) -> None:
        self.findings.append(
            Diagnostic(code=code, value=value.name or "", message=f"{value.name}: {message}")
        )


def _constants(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model_graphs(model):
        yield from graph.initializers.values()
        for node in graph:
            if node.op_type == "Constant" and node.domain == "":
                yield node.outputs[0]


def _narrows(node: ir.Node) -> bool:
    """Whether `node` casts a float32 constant, fed or not, to a float format of fewer bits."""
    target, value = cast_target(node), node.inputs[0] if node.inputs else None
    if target is None or value is None or not is_plain_cast(node, target):
        return False
    tensor = value.const_value if value.is_initializer() else constant_of(value)
    if tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return False
    narrow = formats.of(target)
    return narrow.kind is formats.Kind.FLOAT and narrow.bits in (8, 16)


def _guard(value: ir.Value, casts: Sequence[ir.Node], schemas: Schemas) -> ShrinkGuard | None:
    """The first guard that holds for `value`, read by narrowing `casts`; None if it may shrink."""
    if value.is_graph_input():
        return ShrinkGuard.GRAPH_INPUT
    if value.is_graph_output() or any(node.outputs[0].is_graph_output() for node in casts):
        return ShrinkGuard.GRAPH_OUTPUT
    readers = value.consumers()
    if len(readers) > len(casts):
        wide = set(readers).difference(casts)
        opaque = any(schemas.signature(node) is None for node in wide)
        return ShrinkGuard.OPAQUE_READER if opaque else ShrinkGuard.READ_WIDE
    targets = {target for node in casts if (target := cast_target(node)) is not None}
    if len(targets) > 1:
        return ShrinkGuard.SEVERAL_FORMATS
    tensor = constant_of(value)
    assert tensor is not None
    overflows = _overflows(tensor, formats.of(targets.pop()))
    return ShrinkGuard.OUT_OF_RANGE if overflows else None


def _overflows(tensor: ir.TensorProtocol, narrow: formats.Format) -> bool:
    """Whether a finite number in `tensor` has no finite neighbour in `narrow`."""
    magnitude = weight_range(tensor).finite_absmax
    if magnitude <= narrow.max:
        return False
    largest = np.array([magnitude])
    return not np.isfinite(formats.round_to(largest, narrow, saturate=False)[0])


def _storage(tensor: ir.TensorProtocol | None) -> object:
    """What two constants with the same data have in common; each has its own otherwise."""
    if isinstance(tensor, ir.ExternalTensor):
        return tensor.path, tensor.offset, tensor.length
    return id(tensor)


def _guard_shared(
    guards: dict[ir.Value, ShrinkGuard | None],
    constants: Iterable[ir.Value],
    casts: Mapping[ir.Value, Sequence[ir.Node]],
) -> None:
    """Keep constants whose data another constant needs otherwise: else it would be stored twice."""
    kept = {_storage(constant_of(v)) for v in constants if guards.get(v, v) is not None}
    free = {value: _storage(constant_of(value)) for value in guards if guards[value] is None}
    targets: dict[object, set[ir.DataType | None]] = {}
    for value, storage in free.items():
        targets.setdefault(storage, set()).add(cast_target(casts[value][0]))
    for value, storage in free.items():
        if storage in kept:
            guards[value] = ShrinkGuard.SHARED_STORAGE
        elif len(targets[storage]) > 1:
            guards[value] = ShrinkGuard.SEVERAL_FORMATS
