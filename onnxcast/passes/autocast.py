"""Narrow every float32 type group that may be narrow, with Casts where narrow and wide meet.

Before::

    h = MatMul (x, W)
    y = CumSum (h, axis)

After (float16)::

    x_float16 = Cast <to = 10> (x)
    W_float16 = Cast <to = 10> (W)
    h = MatMul (x_float16, W_float16)
    h_float32 = Cast <to = 1> (h)
    y = CumSum (h_float32, axis)

Keeps names, order and types of graph inputs and outputs. Changes values by the rounding that the
plan says (`onnxcast.planning`). Seed: AutoCastFP32.
"""

from onnxcast.planning import PlannedPass
from onnxcast.policy import Scope

__all__ = ["AutocastPass"]


class AutocastPass(PlannedPass):
    """Narrows all that may be narrow."""

    scope = Scope.ALL
