"""Sizes of values whose shapes may be known in part: a dimension that is not known counts 1."""

import math

import onnx_ir as ir

__all__ = ["bytes_of", "elements"]


def elements(shape: ir.Shape | None) -> int:
    """How many elements a value of `shape` has; 1 if not even its rank is known."""
    return math.prod(size for size in shape or () if isinstance(size, int) and size >= 0)


def bytes_of(shape: ir.Shape | None, bits: int) -> int:
    """Bytes of a value of `shape` with so many bits an element."""
    return -(-elements(shape) * bits // 8)
