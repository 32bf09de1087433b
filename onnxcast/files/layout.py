"""Where the tensors of a written model go: into its `.onnx`, or beside it, and at which places."""

__all__ = ["alignment", "moved_outside", "nbytes"]

from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.files.data import source_tensor
from onnxcast.files.slots import Slot

_INLINE_BELOW = 1024
_LARGEST_INLINE = 3 * 2**29
_LARGEST_PROTOBUF = 2**31 - 1
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


def alignment(slots: Iterable[Slot]) -> int:
    """Return what divides the place of each tensor of `slots` in its file: 64 to 65536 bytes."""
    stored = [source_tensor(slot.tensor) for slot in slots]
    places = [tensor.offset or 0 for tensor in stored if tensor is not None]
    found = _MOST_ALIGNMENT if any(places) else _LEAST_ALIGNMENT
    while found > _LEAST_ALIGNMENT and any(place % found for place in places):
        found //= 2
    return found
