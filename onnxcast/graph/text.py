"""One node as ONNX text, without what would fill the screen.

For instance::

    [product] h = MatMul (x, w)
"""

import onnx
import onnx_ir as ir

__all__ = ["node_text"]

_LARGE = 16
"""Tensors of more elements are told by their type and shape."""


def node_text(node: ir.Node) -> str:
    """`node` in ONNX's text form, on one line; bodies and large tensors are left out."""
    proto = onnx.NodeProto(
        name=node.name or None,
        op_type=node.op_type,
        domain=node.domain,
        input=[(value.name or "") if value is not None else "" for value in node.inputs],
        output=[value.name or "" for value in node.outputs],
        attribute=[_attribute(each) for each in node.attributes.values()],
    )
    text = onnx.printer.to_text(onnx.GraphProto(name="g", node=[proto]))
    return " ".join(text.partition("{")[2].rpartition("}")[0].split())


def _attribute(attribute: ir.Attr) -> onnx.AttributeProto:
    if attribute.is_ref():
        return ir.serde.serialize_attribute(attribute)
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return onnx.helper.make_attribute(attribute.name, "...")
    if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().size > _LARGE:
        tensor = attribute.as_tensor()
        return onnx.helper.make_attribute(attribute.name, f"{tensor.dtype.name}{tensor.shape}")
    return ir.serde.serialize_attribute(attribute)
