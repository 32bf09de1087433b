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
    casts_among,
    constant_of,
    is_plain_cast,
    new_constant,
    set_constant,
)
from onnxcast.graph.schemas import Schemas
from onnxcast.graph.walk import model_nodes, scopes
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
        cast = {node.inputs[0] for node in casts_among(model_nodes(model)) if _narrows(node)}
        if not cast:
            return ir.passes.PassResult(model, False)
        schemas = Schemas(model)
        constants = list(_constants(model))
        read = (value for value in constants if value in cast)
        casts = {value: list(filter(_narrows, value.consumers())) for value in read}
        guards = {value: _guard(value, each, schemas) for value, each in casts.items()}
        free = {v: _target(casts[v][0]) for v, guard in guards.items() if guard is None}
        _guard_shared(guards, free, constants)
        names = Names(model) if any(guards.values()) else None
        absorb_casts({value: casts[value] for value, guard in guards.items() if guard is None})
        for value, guard in guards.items():
            if guard is None:
                self.findings.append(_shrink(value, free[value]))
            elif names is None or not self._copy(model, value, guard, names):
                self._note(Code.INITIALIZER_KEPT, value, guard.value)
        changes = (Code.INITIALIZER_SHRUNK, Code.INITIALIZER_COPIED)
        changed = any(finding.code in changes for finding in self.findings)
        return ir.passes.PassResult(model, changed)

    @staticmethod
    def store(
        model: ir.Model, wanted: Mapping[ir.Value, ir.DataType]
    ) -> dict[ir.Value, Diagnostic]:
        """Store constants as the pass would if all their readers cast them, without such Casts.

        Args:
            model: It has all of them.
            wanted: Float32 initializers, read in this type by all who read them; no graph inputs or
                outputs.

        Returns:
            A finding for each that is stored so; the others are as they were.
        """
        guards = {
            value: ShrinkGuard.OUT_OF_RANGE if _overflows(value, dtype) else None
            for value, dtype in wanted.items()
        }
        _guard_shared(guards, wanted, list(_constants(model)))
        return {value: _shrink(value, wanted[value]) for value in wanted if guards[value] is None}

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
            if not _overflows(value, dtype):
                casts.setdefault(dtype, []).append(node)
        for dtype, nodes in casts.items():
            name = names.fresh(nodes[0].outputs[0].name or "")
            copy = new_constant(model, value, NarrowedTensor(tensor, dtype, name=name), names)
            absorb_casts({copy: nodes})
            message = f"stored as {formats.of(dtype).name} too, as it {guard.value}"
            self._note(Code.INITIALIZER_COPIED, value, message)
        return bool(casts)

    def _note(self, code: Code, value: ir.Value, message: str) -> None:
        self.findings.append(_finding(code, value, message))


def _shrink(value: ir.Value, dtype: ir.DataType) -> Diagnostic:
    """Store `value` as a Cast to `dtype` would give it."""
    tensor = constant_of(value)
    assert tensor is not None
    narrow = NarrowedTensor(tensor, dtype)
    set_constant(value, narrow)
    before = narrow.size * tensor.dtype.bitwidth // 8
    ShrinkInitializersPass.tensor_shrink += before
    message = f"stored as {formats.of(dtype).name}, {before - narrow.nbytes} bytes less"
    return _finding(Code.INITIALIZER_SHRUNK, value, message)


def _finding(code: Code, value: ir.Value, message: str) -> Diagnostic:
    name = value.name or ""
    return Diagnostic(code=code, value=name, message=f"{name}: {message}")


def _constants(model: ir.Model) -> Iterator[ir.Value]:
    for graph, nodes in scopes(model):
        yield from graph.initializers.values()
        for node in nodes:
            if node.op_type == "Constant" and node.domain == "":
                yield node.outputs[0]


def _target(cast: ir.Node) -> ir.DataType:
    dtype = cast_target(cast)
    assert dtype is not None
    return dtype


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
    return ShrinkGuard.OUT_OF_RANGE if _overflows(value, targets.pop()) else None


def _overflows(value: ir.Value, dtype: ir.DataType) -> bool:
    """Whether a finite number in `value`, a constant, has no finite neighbour in `dtype`."""
    tensor, narrow = constant_of(value), formats.of(dtype)
    assert tensor is not None
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
    targets: Mapping[ir.Value, ir.DataType],
    constants: Iterable[ir.Value],
) -> None:
    """Keep constants whose data another constant needs otherwise: else it would be stored twice.

    Args:
        guards: By constant; changed.
        targets: What those without a guard become.
        constants: All of the model.
    """
    kept = {_storage(constant_of(v)) for v in constants if guards.get(v, v) is not None}
    free = {value: _storage(constant_of(value)) for value in guards if guards[value] is None}
    stored: dict[object, set[ir.DataType]] = {}
    for value, storage in free.items():
        stored.setdefault(storage, set()).add(targets[value])
    for value, storage in free.items():
        if storage in kept:
            guards[value] = ShrinkGuard.SHARED_STORAGE
        elif len(stored[storage]) > 1:
            guards[value] = ShrinkGuard.SEVERAL_FORMATS
