"""How many labels a model gets right, and how many its converted form does."""

__all__ = ["labels_right"]

from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnxcast.files.temporary import TemporaryFolder
from onnxcast.verification.feeds import input_specs, load_feeds
from onnxcast.verification.scratch import place
from onnxcast.verification.session import Worker
from onnxcast.verification.twin import build_twin

from .jobs import Job
from .recipes.built import Array


def labels_right(job: Job, result: ir.Model) -> tuple[int, int, int] | None:
    """Count right labels over all samples that have any.

    The label that a model gives is the largest element along the last axis of its first output, or
    that output itself if it is of integers. The result is run as its twin, which rounds as the
    device would.

    Returns:
        How many are right before and after, and of how many; None if there are no labels.
    """
    if job.labels is None:
        return None
    labels = np.load(job.labels)
    chosen = [
        (path, labels[f"s{k}"]) for k, path in enumerate(job.samples) if f"s{k}" in labels.files
    ]
    if not chosen:
        return None
    source = ir.load(job.model)
    feeds = [load_feeds(path, input_specs(source))[0] for path, _ in chosen]
    output = source.graph.outputs[0].name
    assert output
    with TemporaryFolder() as folder, Worker() as worker:
        twin = Path(folder, "twin.onnx")
        place(build_twin(result).model, twin)
        before, after = (
            worker.run(path, feeds, level="disable_all", outputs=[output])
            for path in (Path(job.model), twin)
        )
    wanted = [label for _, label in chosen]
    return (
        _right([np.asarray(run[output]) for run in before], wanted),
        _right([np.asarray(run[output]) for run in after], wanted),
        sum(label.size for label in wanted),
    )


def _right(outputs: list[Array], wanted: list[Array]) -> int:
    return sum(int((_given(a) == b).sum()) for a, b in zip(outputs, wanted, strict=True))


def _given(output: Array) -> Array:
    given: Array = output if output.dtype.kind in "iu" else output.argmax(-1)
    return given
