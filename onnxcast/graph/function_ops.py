"""Whether the body of a function op takes a type that its schema promises.

A runtime without a kernel for an op runs the op's function body instead. Some bodies hold float32
constants, so the op is broken in float16 although its schema allows the type
(MeanVarianceNormalization, Celu-12), or they use an op that lacks the type at that opset.
"""

from collections.abc import Sequence
from typing import Any

import onnx
import onnx_ir as ir

from onnxcast.graph.native import NativeFailure, infer_shapes
from onnxcast.graph.schemas import Signature

__all__ = ["FunctionBodies"]

_DOMAIN = "onnxcast.body"


class FunctionBodies:
    """Type checks of function bodies, each done once per op, opset, attributes and types."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], bool] = {}

    def accept(
        self,
        node: ir.Node,
        signature: Signature,
        version: int,
        types: Sequence[ir.TypeProtocol | None],
    ) -> bool:
        """Whether `node`'s function body type-checks with operands of `types`.

        True for ops without a function body.
        """
        schema = signature.schema
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            return True
        attributes = [
            ir.serde.serialize_attribute(attribute)
            for attribute in node.attributes.values()
            if not attribute.is_ref()
        ]
        key = (
            node.domain,
            node.op_type,
            version,
            tuple(map(str, types)),
            len(node.outputs),
            *(attribute.SerializeToString(deterministic=True) for attribute in attributes),
        )
        if key not in self._known:
            self._known[key] = _type_checks(node, attributes, signature, version, types)
        return self._known[key]


def _type_checks(
    node: ir.Node,
    attributes: Sequence[onnx.AttributeProto],
    signature: Signature,
    version: int,
    types: Sequence[ir.TypeProtocol | None],
) -> bool:
    if any(type_ is None and not _may_be_left_out(signature, k) for k, type_ in enumerate(types)):
        return True  # what builds the body takes such a type for granted, and crashes
    operands = {
        f"i{k}": ir.serde.serialize_type(type_)
        for k, type_ in enumerate(types)
        if type_ is not None
    }
    call = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    call.input.extend("" if type_ is None else f"i{k}" for k, type_ in enumerate(types))
    call.output.extend(f"o{k}" for k in range(len(node.outputs)))
    call.attribute.extend(attributes)
    given = {attribute.name for attribute in attributes}
    for name, formal in signature.schema.attributes.items():
        if name not in given and formal.default_value.type:
            call.attribute.append(formal.default_value)
    given_types = [operands.get(f"i{k}", onnx.TypeProto()) for k in range(len(types))]
    body = _body(signature.schema, version, call, given_types)
    if body is None:
        return True
    call.domain = body.domain = _DOMAIN
    graph = onnx.GraphProto(name="call", node=[call])
    graph.input.extend(onnx.ValueInfoProto(name=n, type=t) for n, t in operands.items())
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in call.output)
    opsets = [onnx.OperatorSetIdProto(version=version)]
    opsets.append(onnx.OperatorSetIdProto(domain=_DOMAIN, version=1))
    model = onnx.ModelProto(graph=graph, functions=[body], opset_import=opsets, ir_version=8)
    try:
        infer_shapes(model, strict=True)
    except NativeFailure:
        return False
    return True


def _may_be_left_out(signature: Signature, index: int) -> bool:
    formal = signature.schema.inputs
    option = formal[min(index, len(formal) - 1)].option
    return bool(option == onnx.defs.OpSchema.FormalParameterOption.Optional)


def _body(
    schema: Any, version: int, call: onnx.NodeProto, types: list[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """The op's function body at an opset `version`; None if it has none for this call."""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        found = schema.get_function_with_opset_version(max(versions)) if versions else None
    else:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if not versions:
            return None
        found = schema.get_context_dependent_function_with_opset_version(
            max(versions),
            call.SerializeToString(),
            [type_.SerializeToString() for type_ in types],
        )
    if not found:
        return None
    return found if isinstance(found, onnx.FunctionProto) else onnx.FunctionProto.FromString(found)
