"""How large and how small the values inside a model get, from one run per sample.

Values are reduced to a few numbers inside the graph, so that no more than the model's own tensors
is ever in memory.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast.files import commit
from onnxcast.graph.opsets import onnx_opset
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_graphs
from onnxcast.verification.reductions import Reducer
from onnxcast.verification.rounding import FIRST_OPSET
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

__all__ = ["Range", "measure_magnitudes", "measure_ranges", "run_numbers"]


@dataclasses.dataclass(frozen=True)
class Range:
    """What the elements of one value were, over all samples.

    Attributes:
        low: The least finite element; inf if there is none.
        high: The greatest; -inf if there is none.
        smallest: The smallest magnitude above 0; inf if there is none.
        non_finite: How many elements were infinite or NaN.
        beyond: How many finite ones were larger than the limit.
    """

    low: float
    high: float
    smallest: float
    non_finite: int
    beyond: int

    @property
    def absmax(self) -> float:
        """The largest finite magnitude; 0 if there is none."""
        return max(-self.low, self.high, 0.0)


def measure_ranges(
    model: ir.Model,
    limits: Mapping[str, float],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> Mapping[str, Range]:
    """Range of each named value.

    Args:
        model: A model that onnxruntime runs; it is not changed.
        limits: By name of a float32 value, the number that is too large when it is exceeded.
        feeds: The samples.
        worker: Runs it.
        folder: For the instrumented copy.

    Returns:
        By name, for values of the main graph and of the subgraphs of If, Loop and Scan; what was
        not computed has no elements. Nothing for a model before opset 9, which lacks the ops that
        the measurement needs.

    Raises:
        RuntimeFailure: The model does not run.
    """

    def spread(reducer: Reducer, value: ir.Value) -> str:
        return reducer.spread(value, limits[value.name or ""])

    found = _measured(model, limits, spread, feeds, worker, folder)
    return {name: _merged(rows) for name, rows in found.items()}


def measure_magnitudes(
    model: ir.Model,
    names: Collection[str],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> Mapping[str, float]:
    """Largest magnitude of each named value, a quick look before a range.

    Arguments and errors are those of `measure_ranges`. Infinite where an element is not finite, or
    where the sum of all magnitudes is not.
    """
    found = _measured(model, names, Reducer.magnitude, feeds, worker, folder)
    return {
        name: float(rows[:, 0].max()) if np.isfinite(rows).all() else np.inf
        for name, rows in found.items()
    }


def _measured(
    model: ir.Model,
    names: Collection[str],
    reduce: Callable[[Reducer, ir.Value], str],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> dict[str, npt.NDArray[np.float64]]:
    if not names or (onnx_opset(model) or 0) < FIRST_OPSET:
        return {}
    names = set(names)
    copy = model.clone()
    types, reducer = ElementTypes(copy), Reducer(copy)
    outputs: dict[str, list[str]] = {}
    for value in _values(copy):
        name, floats = value.name or "", types.dtype(value) == ir.DataType.FLOAT
        # Branches may use a name twice; then all that bear it count.
        if name in names and floats and reducer.reaches(value):
            outputs.setdefault(name, []).append(reduce(reducer, value))
    return run_numbers(copy, outputs, feeds, worker, folder)


def _values(model: ir.Model) -> list[ir.Value]:
    """Inputs and results of the main graph and of what it holds."""
    return [
        value
        for graph in main_graphs(model)
        for value in (*graph.inputs, *(output for node in graph for output in node.outputs))
    ]


def _merged(rows: npt.NDArray[np.float64]) -> Range:
    return Range(
        low=-float(rows[:, 0].max()),
        high=float(rows[:, 1].max()),
        smallest=-float(rows[:, 2].max()),
        non_finite=int(rows[:, 3].sum()),
        beyond=int(rows[:, 4].sum()),
    )


def run_numbers(
    model: ir.Model,
    outputs: Mapping[str, Sequence[str]],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> dict[str, npt.NDArray[np.float64]]:
    """Run a model whose outputs are rows of numbers; return these by what they are of.

    A number that is not a number counts as infinite.

    Args:
        model: The model.
        outputs: Its outputs' names, by what they are the figures of.
        feeds: The samples.
        worker: Runs it.
        folder: For the file.
    """
    if not outputs:
        return {}
    path = folder / "numbers.onnx"
    commit(model, path)
    results = worker.run(path, feeds, level="disable_all")
    found = {}
    for name, several in outputs.items():
        rows = np.array([result[output] for result in results for output in several], np.float64)
        found[name] = np.where(np.isnan(rows), np.inf, rows)
    return found
