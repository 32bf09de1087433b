"""Give mask constants the lowest number of the narrow format, where the user asks for that.

Before::

    <float low = {-3.4028235e+38}>
    masked = Where (keep, scores, low)

After (float16)::

    <float low = {-65504}>
    masked = Where (keep, scores, low)

A mask constant has one number below the format's range, once or many times, and none above it.
Infinities stay. This changes the model, and is reported for each constant; without it an op that
reads such a constant stays float32.
"""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.files import weight_range
from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of, set_constant
from onnxcast.graph.walk import model_graphs

__all__ = ["ClampMasksPass"]


class ClampMasksPass(ir.passes.InPlacePass):
    """Clamps mask constants of every scope.

    Attributes:
        findings: One per constant that the last call clamped.
    """

    def __init__(self, format_: Format) -> None:
        self._format = format_
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Visit the float32 constants of `model` that are no graph inputs or outputs."""
        self.findings = []
        for value in _constants(model):
            mask = self._mask(constant_of(value))
            if mask is None:
                continue
            array, lowest = mask
            clamped = np.where(array == lowest, np.float32(self._format.min), array)
            tensor = ir.tensor(clamped.astype(np.float32), name=value.name)
            set_constant(value, tensor)
            message = f"{value.name}: {lowest:.6g} became {self._format.min:.6g}"
            finding = Diagnostic(code=Code.MASK_CLAMPED, message=message, value=value.name or "")
            self.findings.append(finding)
        return ir.passes.PassResult(model, bool(self.findings))

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
    for graph in model_graphs(model):
        for value in (
            *graph.initializers.values(),
            *(output for node in graph for output in node.outputs),
        ):
            if not value.is_graph_output() and constant_of(value) is not None:
                yield value
