"""Values inside a model, seen by making them graph outputs for a while."""

import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast.files.temporary import TemporaryFolder
from onnxcast.graph.types import ElementTypes, learn_type
from onnxcast.verification.scratch import place
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds, Value

__all__ = ["inner_values", "observe", "observed_types", "write_observed"]

_AT_ONCE = 128
"""So many values are kept in memory, and written to disk, at a time."""


def inner_values(model: ir.Model) -> dict[str, ir.Value]:
    """Results of the main graph's nodes by name, in topological order."""
    return {value.name: value for node in model.graph for value in node.outputs if value.name}


def observe(
    model: ir.Model,
    names: Sequence[str],
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> Iterator[tuple[str, list[Value]]]:
    """Run `model` and yield the named values, each with its content for every sample.

    Args:
        model: Its outputs are changed while this runs, and restored.
        names: Of results of the main graph's nodes.
        feeds: The samples.
        worker: Runs the model, at the level that changes nothing.
        folder: For a copy of the model with other outputs.

    Raises:
        RuntimeFailure: The model does not run.
    """
    path = folder / "observed.onnx"
    for start in range(0, len(names), _AT_ONCE):
        batch = names[start : start + _AT_ONCE]
        write_observed(model, batch, path)
        results = worker.run(path, feeds, level="disable_all")
        for name in batch:
            yield name, [result[name] for result in results]


def write_observed(model: ir.Model, names: Sequence[str], path: pathlib.Path) -> None:
    """Write `model` to `path` with the named values as its outputs, and restore it."""
    values, types = inner_values(model), ElementTypes(model)
    outputs = list(model.graph.outputs)
    declared = {values[name]: values[name].type for name in names}
    model.graph.outputs.clear()
    model.graph.outputs.extend(declared)
    for value in declared:
        value.type = types.of(value)
    try:
        place(model, path)
    finally:
        model.graph.outputs.clear()
        model.graph.outputs.extend(outputs)
        for value, type_ in declared.items():
            value.type = type_


def observed_types(
    model: ir.Model, names: Sequence[str], feeds: Sequence[Feeds], worker: Worker
) -> None:
    """Learn the types that named values turn out to have when `model` runs.

    For results of ops without a schema. Values that are no tensors stay without a type.

    Args:
        model: `ElementTypes` knows the types afterwards; its value_info stays as it is.
        names: Of results of the main graph's nodes.
        feeds: The first sample is run.
        worker: Runs the model.

    Raises:
        RuntimeFailure: The model does not run.
    """
    values = inner_values(model)
    with TemporaryFolder() as folder:
        for name, found in observe(model, names, feeds[:1], worker, pathlib.Path(folder)):
            if isinstance(found[0], np.ndarray):
                learn_type(values[name], ir.TensorType(ir.DataType.from_numpy(found[0].dtype)))
