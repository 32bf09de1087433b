"""Give mask constants the lowest number of the narrow format, where the user asks for that.

Before::

    <float low = {-3.4028235e+38}>
    masked = Where (keep, scores, low)

After (float16)::

    <float low = {-65504}>
    masked = Where (keep, scores, low)

A mask constant has one number below the format's range, once or many times, and none above it.
Infinities stay, and so does a constant that no narrow op reads. This changes the model, and is
reported for each constant; without it an op that reads such a constant stays float32.
"""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.files import weight_range
from onnxcast.graph.edit import constant_of, set_constant
from onnxcast.graph.walk import scopes
from onnxcast.planning import make_plan
from onnxcast.policy import Policy
from onnxcast.targets import GENERIC, Target

__all__ = ["ClampMasksPass"]


class ClampMasksPass(ir.passes.InPlacePass):
    """Clamps mask constants of every scope.

    Attributes:
        findings: One per constant that the last call clamped.
    """

    def __init__(self, policy: Policy, target: Target = GENERIC) -> None:
        assert policy.format is not None
        self._policy = policy
        self._target = target
        self._format = target.realised(policy.format)
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Visit the float32 constants of `model` that are no graph inputs or outputs."""
        self.findings = []
        before = {}
        for value in _constants(model):
            tensor = constant_of(value)
            mask = self._mask(tensor)
            if tensor is not None and mask is not None:
                array, lowest = mask
                before[value] = (tensor, lowest)
                clamped = np.where(array == lowest, np.float32(self._format.min), array)
                set_constant(value, ir.tensor(clamped.astype(np.float32), name=tensor.name))
        # Only with the constants clamped the plan tells which of their readers would be narrow.
        read = self._read_narrow(model) if before else set()
        for value, (tensor, lowest) in before.items():
            if value not in read:
                set_constant(value, tensor)
                continue
            message = f"{value.name}: {lowest:.6g} became {self._format.min:.6g}"
            finding = Diagnostic(code=Code.MASK_CLAMPED, message=message, value=value.name or "")
            self.findings.append(finding)
        return ir.passes.PassResult(model, bool(self.findings))

    def _read_narrow(self, model: ir.Model) -> set[ir.Value | None]:
        plan = make_plan(model, self._policy, self._target)
        return {group.node.inputs[i] for group, decision in plan.narrow() for i in decision.reads}

    def _mask(
        self, tensor: ir.TensorProtocol | None
    ) -> "tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], float] | None":
        """The content of a mask constant and its number below the range; None for any other."""
        if tensor is None or tensor.dtype != ir.DataType.FLOAT:
            return None
        if weight_range(tensor).finite_absmax <= self._format.max:
            return None
        array = np.asarray(tensor.numpy(), np.float32)
        beyond = array[np.isfinite(array) & (np.abs(array) > self._format.max)]
        lowest = float(beyond[0])
        return (array, lowest) if lowest < 0 and bool((beyond == lowest).all()) else None


def _constants(model: ir.Model) -> Iterator[ir.Value]:
    for graph, nodes in scopes(model):
        for value in (
            *graph.initializers.values(),
            *(output for node in nodes for output in node.outputs),
        ):
            if not value.is_graph_output() and constant_of(value) is not None:
                yield value
