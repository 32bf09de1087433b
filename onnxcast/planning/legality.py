"""Whether an op may run in a format, as its schema, its type inference and its body say."""

import functools
from typing import NamedTuple

import onnx
import onnx_ir as ir

from onnxcast.formats import Format
from onnxcast.graph.function_ops import FunctionBodies
from onnxcast.graph.inference import inferred_results
from onnxcast.graph.schemas import ONNX_DOMAINS, Signature, signature_of
from onnxcast.graph.types import ElementTypes
from onnxcast.planning.groups import Group, Kind
from onnxcast.planning.reasons import Reason

__all__ = ["Legality", "Why", "allowing_opset"]


class Why(NamedTuple):
    """One cause for one group.

    Attributes:
        reason: The cause.
        detail: Names or figures that belong to it, or "".
        opset: The first later opset of the model at which it would not hold; None if there is none
            (of a function neither, whose opset is its own).
    """

    reason: Reason
    detail: str = ""
    opset: int | None = None


_Types = list[ir.TypeProtocol | None]


class Legality:
    """Answers for the groups of one model at its opsets."""

    def __init__(self, types: ElementTypes) -> None:
        self._types = types
        self._bodies = FunctionBodies()

    def why_not(self, group: Group, format_: Format) -> Why | None:
        """What refuses `format_` for `group`, of kind SCHEMA or TIED; None if nothing does."""
        assert format_.dtype is not None
        node, type_ = group.node, ir.TensorType(format_.dtype)
        schemas = self._types.schemas
        signature, version = schemas.signature(node), schemas.version(node)
        assert signature is not None
        assert version is not None
        op = f"{node.op_type}-{signature.since_version}"
        if not all(signature.allows(variable, type_) for variable in group.variables):
            later = allowing_opset(node.domain, node.op_type, version, group.variable, type_.dtype)
            detail = op if later is None else f"{op}, allowed from opset {later}"
            in_main = schemas.opsets(node.graph) is schemas.opsets(None)
            return Why(Reason.SCHEMA, detail, later if in_main else None)
        before: _Types = [None if v is None else self._types.of(v) for v in node.inputs]
        after: _Types = list(before)
        for index in group.operands:
            after[index] = type_
        uncastable = self.why_no_cast(node, format_)
        if uncastable is not None or group.kind is Kind.TIED:
            return uncastable
        if not self._infers(group, signature, after, type_):
            return Why(Reason.SCHEMA, f"{op} ties {group.variable} to another type")
        if self._bodies.accept(node, signature, version, before) and not self._bodies.accept(
            node, signature, version, after
        ):
            return Why(Reason.FUNCTION_BODY, op)
        return None

    def why_never(self, group: Group) -> Why | None:
        """What keeps float32 for `group` in any format: no opset lets the op run in half of it.

        Such an op (a tree, a threshold) means its operands to the last bit.
        """
        node, schemas = group.node, self._types.schemas
        signature, version = schemas.signature(node), schemas.version(node)
        assert signature is not None
        assert version is not None
        for dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
            type_ = ir.TensorType(dtype)
            if all(signature.allows(variable, type_) for variable in group.variables):
                return None
            if allowing_opset(node.domain, node.op_type, version, group.variable, dtype):
                return None
        return Why(Reason.SCHEMA, f"{node.op_type}-{signature.since_version}")

    def why_no_cast(self, node: ir.Node, format_: Format) -> Why | None:
        """What refuses a Cast to `format_` beside `node`; functions have opsets of their own."""
        assert format_.dtype is not None
        if self._castable(node, ir.TensorType(format_.dtype)):
            return None
        return Why(Reason.SCHEMA, "no such Cast at the opset of this function")

    def _castable(self, node: ir.Node, type_: ir.TypeProtocol) -> bool:
        imports = self._types.schemas.opsets(node.graph)
        versions = [imports[name] for name in ONNX_DOMAINS if name in imports]
        if not versions:
            # A model that imports no ONNX opset will import one with the first Cast.
            return imports is self._types.schemas.opsets(None)
        cast = signature_of("", "Cast", versions[0])
        return cast is not None and cast.allows("T2", type_)

    def _infers(
        self, group: Group, signature: Signature, operands: _Types, type_: ir.TypeProtocol
    ) -> bool:
        """Whether type inference accepts the operands and gives only `group`'s results the type.

        An attribute's tensor may have to share the type (TreeEnsemble), which inference alone
        knows.
        """
        node = group.node
        attributes = [a for a in node.attributes.values() if not a.is_ref()]
        if not any(a.type == ir.AttributeType.TENSOR for a in attributes) and not _has_others(
            group, operands
        ):
            return True
        found = inferred_results(node, signature, operands, attributes)
        if found is None:
            before = [None if v is None else self._types.of(v) for v in node.inputs]
            return inferred_results(node, signature, before, attributes) is None
        for index, inferred in enumerate(found):
            planned = type_ if index in group.results else self._types.of(node.outputs[index])
            if inferred is not None and planned is not None and inferred != planned:
                return False
        return True


def _has_others(group: Group, operands: _Types) -> bool:
    """Whether the node has float operands or results outside `group`."""
    wide = any(type_ is not None and type_.dtype == ir.DataType.FLOAT for type_ in operands)
    return wide or len(group.results) < len(group.node.outputs)


@functools.cache
def allowing_opset(
    domain: str, op_type: str, after: int, variables: str, dtype: ir.DataType
) -> int | None:
    """The first ONNX opset later than `after` at which an op's variables may be `dtype`."""
    if domain not in ONNX_DOMAINS:
        return None
    for version in range(after + 1, onnx.defs.onnx_opset_version() + 1):
        signature = signature_of(domain, op_type, version)
        if signature is not None and all(
            signature.allows(variable, ir.TensorType(dtype)) for variable in variables.split(", ")
        ):
            return version
    return None
