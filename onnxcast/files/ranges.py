"""How large and how small the numbers of weights are, measured in bounded memory."""

__all__ = ["WeightRange", "measure_small", "weight_range"]

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast.files.ahead import ahead
from onnxcast.files.stored import StoredTensor
from onnxcast.files.weights import Job, element_jobs, in_one_piece

_MEASURED = "onnxcast.range"

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)

_SMALL = 2**10
_TOGETHER = 2**10
"""How many tensors of so many elements at most are measured at once."""


@dataclasses.dataclass(frozen=True)
class WeightRange:
    """How large and how small the numbers of a tensor are.

    Attributes:
        finite_absmax: The largest finite magnitude; 0 if there is none.
        smallest_nonzero: The smallest magnitude above 0, subnormals included; inf if there is none.
        has_nonfinite: Whether an infinity or a NaN is among them.
    """

    finite_absmax: float
    smallest_nonzero: float
    has_nonfinite: bool


def weight_range(tensor: ir.TensorProtocol) -> WeightRange:
    """Measure a float32 tensor of any size, chunk by chunk; one from a file is measured once.

    Raises:
        InputError: As `chunks`.
    """
    assert tensor.dtype is ir.DataType.FLOAT, tensor.dtype
    if type(tensor) is StoredTensor:
        if not isinstance(tensor.measured, WeightRange):
            tensor.measured = _measured_anew(tensor)
        return tensor.measured
    if not isinstance(tensor, ir.ExternalTensor):
        return _measured_anew(tensor)  # the caller's, who may change it
    known = tensor.meta.get(_MEASURED)
    if not isinstance(known, WeightRange):
        known = tensor.meta[_MEASURED] = _measured_anew(tensor)
    return known


def measure_small(tensors: Iterable[ir.TensorProtocol | None]) -> None:
    """Measure small float32 tensors of a file together, so that `weight_range` knows them.

    A tenth of what it takes to measure them one by one, which is most of planning where there are
    tens of thousands.
    """
    small = (
        tensor
        for tensor in tensors
        if type(tensor) is StoredTensor
        and tensor.dtype is ir.DataType.FLOAT
        and not isinstance(tensor.measured, WeightRange)
        and 0 < tensor.size <= _SMALL
    )
    while batch := list(itertools.islice(small, _TOGETHER)):
        arrays = [tensor.numpy().reshape(-1) for tensor in batch]
        starts = np.cumsum([0, *map(len, arrays[:-1])])
        for tensor, found in zip(batch, _ranges(np.concatenate(arrays), starts), strict=True):
            tensor.measured = found


def _ranges(values: npt.NDArray[Any], starts: npt.NDArray[Any]) -> Iterator[WeightRange]:
    """The ranges of the parts of `values` that begin at `starts`; as `_range_of` of each."""
    bits = values.view(np.uint32) & _MAGNITUDE
    finite = bits < _INFINITY
    largest = np.maximum.reduceat(np.where(finite, bits, 0), starts)
    smallest = np.minimum.reduceat(np.where(finite & (bits > 0), bits, _INFINITY), starts)
    has_nonfinite = ~np.logical_and.reduceat(finite, starts)
    numbers = (each.view(np.float32).tolist() for each in (largest, smallest))
    return map(WeightRange, *numbers, has_nonfinite.tolist())


def _measured_anew(tensor: ir.TensorProtocol) -> WeightRange:
    whole = in_one_piece(tensor)
    return _measured(element_jobs(tensor)) if whole is None else _range_of(whole.reshape(-1))


def _measured(jobs: Iterable[Job]) -> WeightRange:
    found = list(ahead(partial(_range_of_job, job) for job in jobs))
    return WeightRange(
        max((each.finite_absmax for each in found), default=0.0),
        min((each.smallest_nonzero for each in found), default=math.inf),
        any(each.has_nonfinite for each in found),
    )


def _range_of_job(job: Job) -> WeightRange:
    return _range_of(job())


def _range_of(piece: npt.NDArray[Any]) -> WeightRange:
    # Magnitudes are ordered as their bits are; integers make this several times faster.
    bits = piece.view(np.uint32) & _MAGNITUDE
    largest = np.maximum.reduce(bits)
    has_nonfinite = bool(largest >= _INFINITY)
    if has_nonfinite:
        bits = bits[bits < _INFINITY]
        largest = bits.max(initial=0)
    if largest == 0:
        return WeightRange(0.0, math.inf, has_nonfinite)
    bits -= np.uint32(1)  # 0 becomes the largest number
    smallest = np.minimum.reduce(bits) + np.uint32(1)
    return WeightRange(_value(largest), _value(smallest), has_nonfinite)


def _value(bits: np.uint32) -> float:
    return float(bits.view(np.float32))
