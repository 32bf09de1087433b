"""Every value inside a model: its range, and how far the rounded model is off there."""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, op_name
from onnxcast.verification.comparison import Tolerance
from onnxcast.verification.differences import Difference
from onnxcast.verification.observation import inner_values, write_observed
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

__all__ = ["Layer", "measure_layers"]

# Types that onnxruntime hands to Python.
_EXCHANGED = frozenset(
    ir.DataType[name]
    for name in (
        *("FLOAT16", "FLOAT", "DOUBLE", "BOOL", "STRING"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    )
)

_AT_ONCE = 256
"""So many values are kept in memory at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer(Difference):
    """A value of the main graph and what becomes of it.

    Attributes:
        value: Its name.
        node: How messages call the node that gives it.
        op: The op of that node.
    """

    value: str
    node: str
    op: str


def measure_layers(
    reference: ir.Model,
    candidate: ir.Model,
    feeds: tuple[Sequence[Feeds], Sequence[Feeds]],
    tolerance: Tolerance,
    worker: Worker,
    folder: pathlib.Path,
) -> Iterator[Layer]:
    """Compare the values that two models have in common, in the topological order of the first.

    Args:
        reference: The source, or its twin. Its outputs are changed while this runs.
        candidate: The result's twin, or the result; likewise.
        feeds: The samples for one and for the other.
        tolerance: Applied to every value as to an output.
        worker: Runs both.
        folder: For copies of both with other outputs.

    Raises:
        RuntimeFailure: One of them does not run.
    """
    common = set(_exchanged(candidate))
    names = [name for name in _exchanged(reference) if name in common]
    values = inner_values(reference)
    paths = folder / "first-observed.onnx", folder / "second-observed.onnx"
    for start in range(0, len(names), _AT_ONCE):
        batch = names[start : start + _AT_ONCE]
        for model, path in zip((reference, candidate), paths, strict=True):
            write_observed(model, batch, path)
        figures = worker.compare(paths, feeds, batch, tolerance)
        for name, found in zip(batch, figures, strict=True):
            node = values[name].producer()
            assert node is not None
            yield Layer(value=name, node=label(node), op=op_name(node), **found)


def _exchanged(model: ir.Model) -> list[str]:
    """Names of the values that can be looked at, in topological order."""
    types = ElementTypes(model)
    return [name for name, value in inner_values(model).items() if types.dtype(value) in _EXCHANGED]
