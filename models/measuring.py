"""Doing a job: convert, save, try on samples that the conversion did not see, and count."""

__all__ = ["measure", "narrow_share"]

import contextlib
import dataclasses
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir

import onnxcast
from onnxcast.files import tensor_slots
from onnxcast.files.temporary import TemporaryFolder
from onnxcast.graph.walk import model_nodes
from onnxcast.policy import multiplied
from onnxcast.verification.comparison import OutputError, Tolerance

from .jobs import Job
from .labels import labels_right
from .rows import Row

_logger = logging.getLogger(__name__)

_MOVES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Ops that hand a weight on. A Cast is one of them: how a weight is stored is what counts."""

_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT8E4M3FN})


_SLACK = 3.0
"""How many times the tolerance passes on samples that a result was not made on: what fits one
sample need not fit another as well, and what comes near a limit must not pass on one machine alone.
"""


def measure(job: Job) -> Row:
    """Do a job in this process; whatever onnxcast raises becomes a row."""
    return dataclasses.replace(_measured(job), **_used())


def _measured(job: Job) -> Row:
    try:
        with _folder(job) as path:
            return _converted(job, path)
    except onnxcast.InputError as error:
        return job.row("invalid", _told(error, job))
    except onnxcast.VerificationError as error:
        return job.row("differs", _told(error, job))
    except onnxcast.OnnxcastError as error:
        return job.row("refused", _told(error, job))
    except MemoryError:
        return job.row("crashed", "out of memory; raise --memory, or give smaller samples")
    except Exception as error:  # one model must not cost the night's other results
        _logger.debug("%s", job.key, exc_info=True)
        return job.row("failed", f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _folder(job: Job) -> Iterator[Path]:
    """Where the result goes, for a while or to stay."""
    if job.out is not None:
        yield Path(job.out)
        return
    with TemporaryFolder() as folder:
        yield Path(folder, "result.onnx")


def _converted(job: Job, path: Path) -> Row:
    result = onnxcast.optimize(
        job.model,
        fp32_cast=job.token,
        target=job.profile or job.target,
        inputs=job.samples[0] if job.samples else None,
        tolerance=job.tolerance,
        drawing=job.report is not None,
    )
    result.save(path)
    if job.report is not None:
        Path(job.report).write_text(result.report.to_json(), encoding="utf-8")
    report, held_out, why = result.report, None, ""
    assert report.proof is not None
    limit = report.proof.tolerance
    loose = Tolerance(_SLACK * limit.max, _SLACK * limit.rms)
    for sample in job.samples[1:]:
        proof = onnxcast.verify(job.model, path, inputs=sample, tolerance=loose)
        held_out = max(held_out or 0.0, _figure(proof.worst))
        if not proof.ok:
            why = why or f"on samples that it was not made on ({Path(sample).name}): "
            why += proof.mismatch if proof.ran else f"its twin {proof.twin}"
            break
    narrow = [slot.tensor for slot in tensor_slots(result.model) if slot.tensor.dtype in _NARROW]
    return job.row(
        "differs" if why else "written",
        why,
        casts=report.after.casts,
        hops=report.after.hops,
        cast_bytes=report.after.cast_bytes,
        bytes_before=report.before.tensor_bytes,
        bytes_after=report.after.tensor_bytes,
        narrow=narrow_share(result.model),
        narrow_bytes=sum(tensor.nbytes for tensor in narrow),
        pins=0 if report.plan is None else len(report.plan.pins()),
        worst_error=_figure(report.proof.worst),
        held_out=held_out,
        labels=labels_right(job, result.model),
    )


def _told(error: Exception, job: Job) -> str:
    """What an error says, without the folders of this machine."""
    text = str(error)
    for path in (job.model, *job.samples):
        text = text.replace(path, Path(path).name)
    return text


def _figure(worst: OutputError | None) -> float:
    return 0.0 if worst is None else max(worst.max_error, worst.rms_error)


def _used() -> dict[str, Any]:
    """The most memory that this process had, and the time of it and of those that it started."""
    try:
        import resource
    except ImportError:  # Windows does not count so
        return {}
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "megabytes": round(own.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1),
        "cpu": round(sum(each.ru_utime + each.ru_stime for each in (own, others)), 2),
    }


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
    for node in model_nodes(model):
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
