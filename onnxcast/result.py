"""What a conversion works with and gives: samples, the clock, the result and its text."""

import contextlib
import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnxcast.files import (
    Progress,
    check_location,
    check_output,
    collector_paused,
    commit_together,
    to_proto,
)
from onnxcast.graph.check import without_files
from onnxcast.report import Report
from onnxcast.verification.proof import Proof
from onnxcast.verification.values import Feeds, Value

__all__ = ["Clock", "Result", "Samples", "failure_text", "save_together"]

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Samples:
    """What a model is run on.

    Attributes:
        feeds: One dict per sample.
        origin: Where they came from, for people.
        labels: What else each sample holds, by name: labels for the outputs.
        outputs: Names of the outputs to compare; None for all.
    """

    feeds: Sequence[Feeds]
    origin: str
    labels: Sequence[Mapping[str, Value]] = ()
    outputs: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """A converted model and the record of its making.

    Attributes:
        model: Always a new model: the caller's is never changed.
        modified: Whether it differs from the source.
        report: Decisions, changes, sizes, proof.
        holder: What held the source, if it came in an object.
    """

    model: ir.Model
    modified: bool
    report: Report
    holder: Any = None

    @property
    def verified(self) -> bool:
        """Whether it was proved and all outputs match."""
        return self.report.proof is not None and self.report.proof.ok

    @functools.cached_property
    def program(self) -> Any:
        """A new `torch.onnx.ONNXProgram` with the model, if one was given; else None.

        It runs and saves as what was given does. Its own ``optimize`` would merge Casts again that
        rounded or that a target needs (see `onnxcast.build_pipeline`): call that before, not after.
        """
        if not hasattr(self.holder, "exported_program"):
            return None
        return type(self.holder)(self.model, self.holder.exported_program)

    def to_proto(self) -> onnx.ModelProto:
        """The model as a proto, its weights narrowed and in memory."""
        with without_files(self.model), collector_paused():
            return to_proto(self.model)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        external: bool | None = None,
        location: str | None = None,
        progress: Progress | None = None,
    ) -> list[Path]:
        """Write the model in one commit; return its files.

        Args:
            path: The ``.onnx`` to write.
            force: Whether it may be the source itself, and whether the file at `location` may be
                replaced, which is a step of its own.
            external: Whether large tensors go to a data file; by default as in the source.
            location: The name of the data file; by default made from the hash of its content.
            progress: Told the bytes done and the bytes in all.

        Raises:
            InputError: `path` cannot be written.
        """
        return save_together(
            {Path(path): self}, force=force, external=external, location=location, progress=progress
        )


def save_together(
    results: Mapping[Path, Result] | Mapping[str, Result],
    *,
    force: bool = False,
    external: bool | None = None,
    location: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write results as `Result.save` does; what they share in one data file is written once.

    Args:
        results: By the ``.onnx`` to write.
        force: As for `Result.save`.
        external: As for `Result.save`.
        location: As for `Result.save`.
        progress: As for `Result.save`.

    Returns:
        Each ``.onnx`` and each data file.

    Raises:
        InputError: One cannot be written.
    """
    for path, result in results.items():
        source = Path(result.report.source) if result.report.source else None
        check_output(Path(path), source, force=force)
        if location is not None:
            check_location(location, Path(path), external=external, force=force)
    models = {Path(path): result.model for path, result in results.items()}
    with collector_paused():
        return commit_together(models, external=external, location=location, progress=progress)


class Clock:
    """Tells steps as they begin and keeps their seconds."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self.progress = progress or (lambda _step: None)
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell that step `name` begins, and time it."""
        logger.debug("%s", name)
        self.progress(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def failure_text(proof: Proof) -> str:
    """One line on why a proof failed: the worst output, its figures, the first diverging node."""
    if proof.as_is.startswith("failed"):
        return f"onnxruntime does not take the result as it is: it {proof.as_is}"
    if proof.twin != "ran":
        return f"nothing proves the result's numbers: its twin {proof.twin}"
    culprit = "that node or its op" if proof.diverging else "more ops"
    return f"{proof.mismatch}; keep {culprit} wide, or raise the tolerance"
