"""How large the values inside a model get, from one run per sample.

Every float32 value of the main graph is reduced to one number inside the graph, so that no more
than the model's own tensors is ever in memory.
"""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.files import commit
from onnxcast.graph.opsets import onnx_opset
from onnxcast.graph.types import ElementTypes
from onnxcast.verification.reductions import FIRST_OPSET, Reducer
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

__all__ = ["largest", "measure_ranges"]


def measure_ranges(
    model: ir.Model, feeds: Sequence[Feeds], worker: Worker, folder: pathlib.Path
) -> Mapping[str, float]:
    """Largest finite magnitude of each float32 value, over all samples.

    Args:
        model: A model that onnxruntime runs; it is not changed.
        feeds: The samples.
        worker: Runs it.
        folder: For the instrumented copy.

    Returns:
        A figure per named float32 graph input and result of the main graph; nothing for a model
        before opset 9, which lacks the ops that the measurement needs.

    Raises:
        RuntimeFailure: The model does not run.
    """
    if (onnx_opset(model) or 0) < FIRST_OPSET:
        return {}
    copy = model.clone()
    graph, types = copy.graph, ElementTypes(copy)
    values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
    watched = [v for v in values if v.name and types.dtype(v) == ir.DataType.FLOAT]
    reducer = Reducer(copy)
    measured = {value.name or "": reducer.absmax(value) for value in watched}
    return largest(copy, measured, feeds, worker, folder)


def largest(
    model: ir.Model,
    outputs: Mapping[str, str],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> dict[str, float]:
    """Run a model whose outputs are numbers; return the largest of each over the samples.

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
    for name, output in outputs.items():
        figures = np.array([np.asarray(result[output]).reshape(-1)[0] for result in results])
        found[name] = float(np.where(np.isnan(figures), np.inf, figures).max())
    return found
