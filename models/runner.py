"""Models times modes: what each conversion gives, as rows that a later run can be compared with."""

__all__ = ["MODES", "Row", "Subject", "narrow_share", "run"]

import dataclasses
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import onnx_ir as ir

import onnxcast
from onnxcast.graph.walk import model_graphs
from onnxcast.policy import TOKENS, multiplied

logger = logging.getLogger(__name__)

MODES = tuple(dict.fromkeys(onnxcast.make_policy(fp32_cast=token).token for token in TOKENS))
"""One token for each mode."""

_MOVES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Ops that hand a weight on. A Cast is one of them: how a weight is stored is what counts."""

_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT8E4M3FN})


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model to run.

    Attributes:
        name: Names its rows and files.
        get: Returns its path, which may take a download.
        inputs: Its samples; None for a made-up one.
    """

    name: str
    get: Callable[[], Path]
    inputs: Path | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What one conversion gave; figures are None where there is no result.

    Attributes:
        name: The model.
        token: The mode.
        outcome: ``written``; ``refused``, by an error that onnxcast raises on purpose; ``failed``,
            which is a fault of onnxcast or of the download.
        cause: One line, "" if it was written.
        casts: Casts in the result.
        bytes_before: Bytes of the source's tensors.
        bytes_after: Bytes of the result's tensors.
        narrow: See `narrow_share`.
        pins: How many nodes measured figures keep wide.
        worst_error: The worst figure of any output, relative to its largest value.
        seconds: Wall-clock seconds.
    """

    name: str
    token: str
    outcome: Literal["written", "refused", "failed"]
    cause: str = ""
    casts: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    narrow: float | None = None
    pins: int | None = None
    worst_error: float | None = None
    seconds: float = 0.0


def run(
    subjects: Sequence[Subject],
    tokens: Sequence[str],
    *,
    out: Path | None = None,
    progress: Callable[[int, int, str], None] = lambda _done, _total, _what: None,
) -> list[Row]:
    """Convert and prove each model in each mode.

    Args:
        subjects: The models.
        tokens: The modes.
        out: Where results are kept as ``NAME.TOKEN.onnx``; by default they are dropped.
        progress: Told how many conversions are done, of how many, and which one begins.
    """
    rows: list[Row] = []
    total = len(subjects) * len(tokens)
    with tempfile.TemporaryDirectory(prefix="onnxcast-zoo-") as dropped:
        for subject in subjects:
            for token in tokens:
                progress(len(rows), total, f"{subject.name} {token}")
                rows.append(_row(subject, token, out or Path(dropped)))
    return rows


def _row(subject: Subject, token: str, out: Path) -> Row:
    start = time.perf_counter()
    try:
        path = subject.get()
    except onnxcast.RefusedError as error:
        return Row(name=subject.name, token=token, outcome="failed", cause=str(error))
    try:
        result = onnxcast.optimize(path, fp32_cast=token, inputs=subject.inputs)
        result.save(out / f"{subject.name}.{token}.onnx")
    except onnxcast.OnnxcastError as error:
        seconds = time.perf_counter() - start
        return Row(
            name=subject.name, token=token, outcome="refused", cause=str(error), seconds=seconds
        )
    except Exception as error:  # one model must not cost the night's other results
        logger.debug("%s %s", subject.name, token, exc_info=True)
        cause = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        return Row(name=subject.name, token=token, outcome="failed", cause=cause, seconds=seconds)
    report = result.report
    return Row(
        name=subject.name,
        token=token,
        outcome="written",
        casts=report.after.casts,
        bytes_before=report.before.tensor_bytes,
        bytes_after=report.after.tensor_bytes,
        narrow=narrow_share(result.model),
        pins=0 if report.plan is None else len(report.plan.pins()),
        worst_error=_worst(result),
        seconds=time.perf_counter() - start,
    )


def _worst(result: onnxcast.Result) -> float | None:
    proof = result.report.proof
    worst = None if proof is None else proof.worst
    return None if worst is None else max(worst.max_error, worst.rms_error)


def narrow_share(model: ir.Model) -> float | None:
    """How much of the weights of matmul-like ops is stored in 16 bits or fewer.

    Counted are float constants that such an op multiplies, directly or through ops that only move
    data or cast it, each constant once.

    Returns:
        A share of elements, and so of the bytes they had in float32; None if there are none.
    """
    weights = {id(tensor): tensor for tensor in _weights(model)}.values()
    total = sum(tensor.size for tensor in weights)
    narrow = sum(tensor.size for tensor in weights if tensor.dtype in _NARROW)
    return narrow / total if total else None


def _weights(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for graph in model_graphs(model):
        for node in graph:
            yield from _constants(node.inputs[: multiplied(node)])


def _constants(values: Iterable[ir.Value | None]) -> Iterator[ir.TensorProtocol]:
    """Float constants among `values` or behind them."""
    pending, seen = list(values), set[ir.Value]()
    while pending:
        value = pending.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        producer = value.producer()
        if producer is not None and producer.op_type in _MOVES and producer.domain == "":
            pending.extend(producer.inputs)
            continue
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is not None and tensor.dtype in _NARROW | {ir.DataType.FLOAT}:
            yield tensor
