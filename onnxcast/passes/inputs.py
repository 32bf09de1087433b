"""Round graph inputs to the narrow format, and leave what computes with them.

Before::

    y = Relu (x)                   # x is a graph input

After (float16)::

    x_float16 = Cast <to = 10> (x)
    x_float16_float32 = Cast <to = 1> (x_float16)
    y = Relu (x_float16_float32)

Readers that no rounded value may reach keep reading the input as it is. Keeps names, order and
types of graph inputs and outputs. Seed: AutoCastInputs.
"""

from onnxcast.planning import PlannedPass
from onnxcast.policy import Scope

__all__ = ["InputsPass"]


class InputsPass(PlannedPass):
    """Rounds graph inputs for the readers that may see them rounded."""

    scope = Scope.INPUTS
