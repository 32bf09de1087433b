"""Give matmul-like ops the operand type that the target takes, and leave the rest of the graph.

Before::

    y = MatMul (x, W)
    z = Add (x, y)

After (a target whose matmul takes float16)::

    x_float16 = Cast <to = 10> (x)
    W_float16 = Cast <to = 10> (W)
    y = MatMul (x_float16, W_float16)
    y_float32 = Cast <to = 1> (y)
    z = Add (x, y_float32)

Only the matmul's own use of an operand is rewired: other readers see the wide value. Which type
an operand gets is the target's answer and nothing else. Seed: AutoCastTCInputs.
"""

from onnxcast.planning import PlannedPass
from onnxcast.policy import Scope

__all__ = ["MatmulOperandsPass"]


class MatmulOperandsPass(PlannedPass):
    """Narrows matmul-like ops and the data movement that feeds only them."""

    scope = Scope.MATMULT
