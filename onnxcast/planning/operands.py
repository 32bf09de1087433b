"""Matmul-like nodes of a result whose operands the target does not multiply as they are."""

from collections.abc import Iterator

import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.errors import RefusedError
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, model_nodes
from onnxcast.policy import Meaning, has_meaning
from onnxcast.targets import Target

__all__ = ["unmultiplied"]


def unmultiplied(
    model: ir.Model, target: Target, types: ElementTypes | None = None
) -> Iterator[Diagnostic]:
    """A finding per matmul-like node of types that are in no pair of `target`'s table.

    Args:
        model: The model.
        target: Tells what it multiplies.
        types: Of the model, if they are known; of what is in functions, too.
    """
    if not target.pairs:
        return
    types = types or ElementTypes(model, in_functions=True)
    for node in model_nodes(model):
        if not has_meaning(node, Meaning.MATMUL) or len(node.inputs) < 2:
            continue
        first, second = (types.dtype(value) for value in node.inputs[:2])
        if first is None or second is None:
            continue
        pair = formats.of(first), formats.of(second)
        if not _is_taken(pair, target):
            message = f"{label(node)} multiplies {pair[0]} with {pair[1]}"
            name = node.name or ""
            yield Diagnostic(code=Code.OPERANDS_NOT_TAKEN, message=message, node=name)


def _is_taken(pair: tuple[formats.Format, formats.Format], target: Target) -> bool:
    try:
        return target.matmul_operand_pair(*pair) == pair
    except RefusedError:
        return False
