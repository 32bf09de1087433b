"""What the schemas tell of the types of a node's results: fixed types, and their own inference."""

import functools
from collections.abc import Iterable, Sequence

import onnx
import onnx_ir as ir

from onnxcast.graph.schemas import Signature

__all__ = ["inferred_results", "parse_fixed"]

_REFUSALS = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    KeyError,
    ValueError,
)


@functools.cache
def parse_fixed(variable: str) -> ir.TypeProtocol | None:
    """The type that a fixed type string such as ``seq(tensor(float))`` names; None if none."""
    outer, _, rest = variable.partition("(")
    if not rest:
        return None
    inner = rest[:-1]
    if outer == "tensor":
        return ir.TensorType(ir.DataType[inner.upper()])
    element = parse_fixed(inner)
    if element is None or outer not in ("seq", "optional"):
        return None
    return ir.SequenceType(element) if outer == "seq" else ir.OptionalType(element)


def inferred_results(
    node: ir.Node,
    signature: Signature,
    operands: Sequence[ir.TypeProtocol | None],
    attributes: Iterable[ir.Attr],
) -> list[ir.TypeProtocol | None] | None:
    """Types of the results by the schema's own inference, which knows what attributes mean.

    Args:
        node: A node of an ONNX op.
        signature: Its signature.
        operands: A type per operand; None for one that is left out or not known.
        attributes: Its attributes, references resolved.

    Returns:
        A type per result, None where too little is known about the operands; None instead of
        all if inference refuses the operands.
    """
    if signature.schema is None:
        return [None] * len(node.outputs)
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.input.extend("" if value is None else f"i{k}" for k, value in enumerate(node.inputs))
    proto.output.extend(f"o{k}" if value.name else "" for k, value in enumerate(node.outputs))
    proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in attributes)
    types = {
        f"i{k}": ir.serde.serialize_type(type_)
        for k, type_ in enumerate(operands)
        if type_ is not None
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(signature.schema, proto, types)
    except _REFUSALS:
        return None
    return [_known(found.get(f"o{k}")) for k in range(len(node.outputs))]


def _known(proto: onnx.TypeProto | None) -> ir.TypeProtocol | None:
    if proto is None or (
        proto.HasField("tensor_type") and proto.tensor_type.elem_type == onnx.TensorProto.UNDEFINED
    ):
        return None
    try:
        return ir.serde.deserialize_type_proto_for_type(proto)
    except (ir.serde.SerdeError, ValueError):  # a map, or a number that stands for no type
        return None
