"""Constants that are read wide and narrow: small ones are stored twice, large ones are cast."""

import onnx_ir as ir

__all__ = ["is_copied"]

_LARGEST = 2**16


def is_copied(tensor: ir.TensorProtocol) -> bool:
    """Whether a second copy of `tensor` costs less than a Cast of it in every run."""
    return tensor.nbytes <= _LARGEST
