"""The first node at which a rounded model leaves its reference."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, op_name
from onnxcast.verification.comparison import OutputError, Tolerance, compare, worst
from onnxcast.verification.observation import inner_values, observe
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds, Value

__all__ = ["first_diverging"]

# Types that onnxruntime hands to Python.
_EXCHANGED = frozenset(
    ir.DataType[name]
    for name in (
        *("FLOAT16", "FLOAT", "DOUBLE", "BOOL", "STRING"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    )
)


@dataclasses.dataclass(frozen=True)
class _Finding:
    error: OutputError
    non_finite: bool


def first_diverging(
    reference: ir.Model,
    candidate: ir.Model,
    feeds: tuple[Sequence[Feeds], Sequence[Feeds]],
    tolerance: Tolerance,
    worker: Worker,
    folder: pathlib.Path,
) -> str:
    """Name the node of `reference` at which `candidate` first differs by more than `tolerance`.

    That is the first in topological order that is non-finite where the reference is not; if there
    is none, the first whose error exceeds the tolerance while those of all its inputs do not.

    Args:
        reference: The source, or its twin.
        candidate: The result's twin, or the result. Its values bear the reference's names.
        feeds: The samples for one and for the other.
        tolerance: Applied to every value as to an output.
        worker: Runs both.
        folder: For copies of both with other outputs.

    Returns:
        Node, op and figures on one line; "" if no value of the main graph tells.
    """
    common = set(_exchanged(candidate))
    names = [name for name in _exchanged(reference) if name in common]
    findings: dict[str, _Finding] = {}
    pairs = zip(
        observe(reference, names, feeds[0], worker, folder),
        observe(candidate, names, feeds[1], worker, folder),
        strict=True,
    )
    for (name, wanted), (_, found) in pairs:
        findings[name] = _compared(name, wanted, found, tolerance)
    return _first(reference, findings)


def _exchanged(model: ir.Model) -> list[str]:
    """Names of the values that can be looked at, in topological order."""
    types = ElementTypes(model)
    return [name for name, value in inner_values(model).items() if types.dtype(value) in _EXCHANGED]


def _compared(
    name: str, wanted: Sequence[Value], found: Sequence[Value], tolerance: Tolerance
) -> _Finding:
    errors = [
        error
        for a, b in zip(wanted, found, strict=True)
        for error in compare({name: a}, {name: b}, tolerance)
    ]
    broken = any(_breaks(a, b) for a, b in zip(wanted, found, strict=True))
    return _Finding(worst(errors), broken)


def _breaks(wanted: Value, found: Value) -> bool:
    """Whether an element is non-finite that is finite in the reference."""
    if not (isinstance(wanted, np.ndarray) and isinstance(found, np.ndarray)):
        return False
    if wanted.dtype.kind != "f" or found.dtype.kind != "f" or wanted.shape != found.shape:
        return False
    return bool((np.isfinite(wanted) & ~np.isfinite(found)).any())


def _first(reference: ir.Model, findings: dict[str, _Finding]) -> str:
    later = ""
    for node in reference.graph:
        mine = [findings[v.name] for v in node.outputs if v.name in findings]
        broken = next((finding for finding in mine if finding.non_finite), None)
        if broken is not None:
            return _told(node, broken)
        wrong = next((finding for finding in mine if not finding.error.ok), None)
        inputs = [findings[v.name] for v in node.inputs if v is not None and v.name in findings]
        if wrong is not None and not later and all(finding.error.ok for finding in inputs):
            later = _told(node, wrong)
    return later


def _told(node: ir.Node, finding: _Finding) -> str:
    return f"{label(node)} ({op_name(node)}): {finding.error.why}"
