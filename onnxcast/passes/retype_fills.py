"""Fill a tensor in the narrow type if all its readers are one and the same narrowing Cast.

Before::

    zero = ConstantOfShape <value = float[1] {0}> (size)
    zero_float16 = Cast <to = 10> (zero)
    y = MatMul (x_float16, zero_float16)

After::

    zero = ConstantOfShape <value = float16[1] {0}> (size)
    y = MatMul (x_float16, zero)

Bit-exact with respect to the Cast that it absorbs; what is read wide as well, is a graph output, or
may not have the type at the model's opset stays. Not so EyeLike, which onnxruntime has in no
narrow format. Source: the ConstantOfShape section of ONNX's Operators.md.
"""

import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.graph.edit import absorb_casts, cast_target, is_plain_cast, retype
from onnxcast.graph.fills import fill_value, retyped_fill
from onnxcast.graph.findings import finding_about
from onnxcast.graph.schemas import Schemas
from onnxcast.graph.walk import model_nodes

__all__ = ["RetypeFillsPass"]


class RetypeFillsPass(ir.passes.InPlacePass):
    """Absorbs narrowing Casts into ConstantOfShape.

    Attributes:
        findings: One per node that the last call retyped.
    """

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Visit every scope of `model`."""
        self.findings = []
        schemas = Schemas(model)
        for node in model_nodes(model):
            if fill_value(node) is not None:
                self._retype(node, schemas)
        return ir.passes.PassResult(model, bool(self.findings))

    def _retype(self, node: ir.Node, schemas: Schemas) -> None:
        value = node.outputs[0]
        dtype = _only_cast(value)
        attribute = None if dtype is None else retyped_fill(node, dtype, schemas)
        if dtype is None or attribute is None:
            return
        node.attributes[attribute.name] = attribute
        absorb_casts({value: value.consumers()})
        retype(value, dtype)
        message = f"{value.name} is filled as {formats.of(dtype).name}"
        self.findings.append(finding_about(node, Code.FILL_RETYPED, message))


def _only_cast(value: ir.Value) -> ir.DataType | None:
    """The float format to which all readers of `value` cast it; None if there is no such thing."""
    targets = {cast_target(node) for node in value.consumers()}
    if value.is_graph_output() or len(targets) != 1:
        return None
    (dtype,) = targets
    if dtype is None or formats.of(dtype).kind is not formats.Kind.FLOAT:
        return None
    plain = all(
        is_plain_cast(node, dtype) and not node.outputs[0].is_graph_output()
        for node in value.consumers()
    )
    return dtype if plain and formats.of(dtype).bits < 32 else None
