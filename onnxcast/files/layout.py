"""Where the tensors of a written model go: into its `.onnx`, or beside it, and at which places."""

__all__ = ["Alignment", "alignment", "moved_outside", "nbytes"]

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.files.data import source_tensor
from onnxcast.files.slots import Slot

_INLINE_BELOW = 1024
_LARGEST_INLINE = 3 * 2**29
_LARGEST_PROTOBUF = 2**31 - 1
_LARGE = 2**20
_LEAST_ALIGNMENT, _MOST_ALIGNMENT = 64, 65536


def moved_outside(slots: Sequence[Slot], external: bool | None, output: Path) -> list[Slot]:
    """Return the slots whose tensors go to a data file.

    Args:
        slots: Those of the model.
        external: Whether the large ones do; by default if any is in a file already, or all of them
            together are larger than 1.5 GiB.
        output: Named in messages.

    Raises:
        InputError: The tensors are too large for one file, and `external` is False.
    """
    total = sum(nbytes(slot.tensor) for slot in slots)
    if external is None:
        is_read = any(source_tensor(slot.tensor) is not None for slot in slots)
        external = is_read or total > _LARGEST_INLINE
    if external:
        return [slot for slot in slots if slot.movable and nbytes(slot.tensor) >= _INLINE_BELOW]
    if total > _LARGEST_PROTOBUF:
        raise InputError(
            f"{output}: {total} bytes of tensors, at most {_LARGEST_PROTOBUF} wanted in one file; "
            "allow external data"
        )
    return []


def nbytes(tensor: ir.TensorProtocol) -> int:
    """Return the bytes that `tensor` is stored in, 0 for strings."""
    return 0 if tensor.dtype is ir.DataType.STRING else tensor.nbytes


@dataclasses.dataclass(frozen=True)
class Alignment:
    """What the places of tensors in a data file are multiples of, 64 to 65536 bytes.

    Attributes:
        large: Of those of at least 1 MiB, narrow or not.
        small: Of the others.
    """

    large: int
    small: int

    def of(self, tensor: ir.TensorProtocol) -> int:
        """What the place of `tensor` is to be a multiple of."""
        return self.large if _is_large(source_tensor(tensor) or tensor) else self.small


def alignment(slots: Iterable[Slot]) -> Alignment:
    """Return how the tensors of `slots` are aligned in their files.

    Small ones may just happen to be, one behind the other; where there is no gap between any, they
    are taken not to be.
    """
    found = [source_tensor(slot.tensor) for slot in slots]
    stored = [tensor for tensor in found if tensor is not None]
    large = _common(tensor for tensor in stored if _is_large(tensor))
    ends = {(str(tensor.path), (tensor.offset or 0) + tensor.nbytes) for tensor in stored}
    padded = any(
        tensor.offset and (str(tensor.path), tensor.offset) not in ends for tensor in stored
    )
    return Alignment(large, _common(stored) if padded else _LEAST_ALIGNMENT)


def _is_large(tensor: ir.TensorProtocol) -> bool:
    return tensor.nbytes >= _LARGE


def _common(tensors: Iterable[ir.ExternalTensor]) -> int:
    places = [tensor.offset or 0 for tensor in tensors]
    found = _MOST_ALIGNMENT if any(places) else _LEAST_ALIGNMENT
    while found > _LEAST_ALIGNMENT and any(place % found for place in places):
        found //= 2
    return found
