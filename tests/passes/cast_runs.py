"""Casts of arrays in one step and in two, by onnxruntime or by onnx's reference."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import onnx_ir as ir
from onnx import helper

from onnxcast import formats
from onnxcast.formats import FLOAT8E8M0, FORMATS, Format, Kind
from tests import golden

__all__ = ["CASTABLE", "IN_ORT", "STEPS", "Step", "all_values", "by_ort", "by_reference", "values"]

Array = npt.NDArray[Any]

_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED, Kind.BOOL)

CASTABLE = tuple(each for each in FORMATS if each.kind is not Kind.COMPLEX)
"""ONNX's Cast takes no complex numbers."""

IN_ORT = tuple(each for each in CASTABLE if each.bits != 6 and each.name != "float4e2m1")
"""What onnxruntime can cast; onnx's reference casts all of them."""

_ORT_OPSET, _ORT_IR_VERSION = 25, 13


@dataclasses.dataclass(frozen=True)
class Step:
    """A Cast to a format."""

    to: Format
    saturates: bool = True

    def node(self, source: str, result: str) -> onnx.NodeProto:
        assert self.to.dtype is not None
        node = helper.make_node("Cast", [source], [result], to=int(self.to.dtype))
        if not self.saturates:
            node.attribute.append(helper.make_attribute("saturate", 0))
        return node

    def __str__(self) -> str:
        return str(self.to) + ("" if self.saturates else " without saturation")


def _has_saturation(format_: Format) -> bool:
    return format_.kind is Kind.FLOAT and format_.bits == 8 and format_ != FLOAT8E8M0


STEPS = tuple(
    Step(each, saturates)
    for each in CASTABLE
    for saturates in ((True, False) if _has_saturation(each) else (True,))
)
"""All Casts that there are but for the ways of rounding to float8e8m0."""


def all_values(format_: Format) -> Array:
    """Every value of a format of 16 bits or less, every NaN too."""
    assert format_.dtype is not None
    assert 0 < format_.bits <= 16
    dtype = format_.dtype.numpy()
    if format_.kind in _INTEGERS:
        return np.arange(int(format_.min), int(format_.max) + 1).astype(dtype)
    patterns = np.arange(2**format_.bits, dtype=np.uint16 if format_.bits == 16 else np.uint8)
    return patterns.view(dtype)


@functools.cache
def values(format_: Format) -> Array:
    """All values of a small format; of a wide one the boundaries and thousands of others."""
    if 0 < format_.bits <= 16:
        return all_values(format_)
    if format_.kind is Kind.STRING:
        return np.array(STRINGS, dtype=object)
    assert format_.dtype is not None
    dtype = format_.dtype.numpy()
    if format_.kind in _INTEGERS:
        return _wide_integers(format_).astype(dtype)
    return _wide_floats(dtype)


STRINGS = ("0", "1", "2", "3", "-0", "1.0")
"""Numbers that every type holds, and no others: what becomes of the rest is undefined."""


def _wide_integers(format_: Format) -> Array:
    generator = np.random.default_rng(0)
    low, top = int(format_.min), int(format_.max)
    near = (
        sign * (1 << power) + offset
        for sign in (-1, 1)
        for power in range(format_.significand + 1)
        for offset in range(-3, 4)
    )
    # A power of two and a half step of each float, and one more, which tells one rounding from two.
    half = ((1 << k) + (1 << k - b) + 1 for k in range(30, 62) for b in (3, 4, 8, 11, 24))
    powers = generator.integers(0, 62, 500)
    random = (int(generator.integers(0, 1 << 62)) >> int(power) for power in powers)
    chosen = {v for v in (*near, *half, *random, low, top) if low <= v <= top}
    return np.array(sorted(chosen), dtype=object)


@np.errstate(all="ignore")
def _wide_floats(dtype: np.dtype[Any]) -> Array:
    """Values of the smaller floats, what lies just beside and half way between, and any others."""
    small = [each for each in CASTABLE if each.kind is Kind.FLOAT and each.bits <= 16]
    found: list[Array] = []
    for each in small:
        exact = all_values(each).astype(np.float64)
        exact = np.unique(exact[np.isfinite(exact)])[:: 37 if each.bits == 16 else 1]
        ties = (exact[1:] + exact[:-1]) / 2
        found += [exact, *(v * f for v in (exact, ties) for f in (1, 1 + 2**-20, 1 - 2**-20))]
        found.append(ties * (1 + 2**-40))  # which float32 rounds to the tie
        found.append(np.array([each.max, -each.max]) * 1.01)
    patterns = np.random.default_rng(0).integers(0, 2**63, 2000, np.uint64) << np.uint64(1)
    found.append(patterns.view(np.float64))
    patterns = np.random.default_rng(1).integers(0, 2**32, 2000, np.uint64).astype(np.uint32)
    found.append(patterns.view(np.float32).astype(np.float64))
    integers = [float(v) for k in (7, 8, 15, 16, 31, 32, 63, 64) for v in (2**k - 1, 2**k, -(2**k))]
    specials = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-45, -1e-45, 1e300, -0.5, 0.5]
    found.append(np.array([*integers, *specials]))
    return np.concatenate(found).astype(dtype)


def by_reference(source: Array, steps: Sequence[Step]) -> Array:
    """`source` after one Cast after the other, by onnx's reference.

    It lacks Casts between some of the small types, and from strings to them, but what a Cast gives
    follows from the number.
    """
    for step in steps:
        if source.dtype.kind in "OU" and step.to.kind is not Kind.STRING:
            source = source.astype(np.float64)
        elif source.dtype.isbuiltin == 2:  # of ml_dtypes
            integers = source.dtype.name.startswith(("int", "uint"))
            source = source.astype(np.int64 if integers else np.float64)
        results = _reference(step).run(None, {"x": source})
        source = np.asarray(next(iter(results)))
    return source


@functools.cache
def _reference(step: Step) -> onnx.reference.ReferenceEvaluator:
    x, y = (onnx.ValueInfoProto(name=name) for name in ("x", "y"))
    graph = helper.make_graph([step.node("x", "y")], "cast", [x], [y])
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    return onnx.reference.ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))


def by_ort(source: Format, first: Iterable[Step], last: Sequence[Step]) -> list[Array]:
    """The `values` of `source` after the `first` Casts and each of the `last` ones, by onnxruntime.

    Small floats come as float32 and small integers as int32.
    """
    nodes, at = [], "x"
    for index, step in enumerate(first):
        nodes.append(step.node(at, f"m{index}"))
        at = f"m{index}"
    outputs = []
    for index, step in enumerate(last):
        nodes.append(step.node(at, f"y{index}"))
        shown = _shown(step.to)
        if shown is not step.to:
            nodes.append(Step(shown).node(f"y{index}", f"z{index}"))
        outputs.append(f"{'y' if shown is step.to else 'z'}{index}")
    assert source.dtype is not None
    graph = helper.make_graph(
        nodes, "casts", [], [onnx.ValueInfoProto(name=name) for name in outputs], [_stored(source)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _ORT_OPSET)])
    model.ir_version = _ORT_IR_VERSION
    return golden.run(model, {})


def _shown(format_: Format) -> Format:
    """The format in which numpy can take results of `format_` from onnxruntime."""
    if format_.kind is Kind.FLOAT and (format_.bits == 8 or format_.name == "bfloat16"):
        return formats.FLOAT32
    return formats.INT32 if 0 < format_.bits < 8 else format_


@functools.cache
def _stored(source: Format) -> onnx.TensorProto:
    array = values(source)
    if source.kind is Kind.STRING:
        texts = [text.encode() for text in array]
        return helper.make_tensor("x", onnx.TensorProto.STRING, [len(texts)], texts)
    return ir.to_proto(ir.tensor(array, dtype=source.dtype, name="x"))
