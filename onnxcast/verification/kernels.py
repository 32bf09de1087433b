"""What onnxruntime's CPU has no kernel for, written as what it has one for."""

import onnx_ir as ir

from onnxcast.formats import Kind, of
from onnxcast.graph.edit import take_place
from onnxcast.graph.truth import is_choice
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_nodes

__all__ = ["cast_choices"]


def cast_choices(model: ir.Model, types: ElementTypes) -> None:
    """Let a choice of 1 or 0 in an integer type be the Cast that it stands for.

    onnxruntime's Where lacks some of these types, its Cast none.
    """
    for node in main_nodes(model):
        dtype = types.dtype(node.outputs[0]) if is_choice(node) else None
        if dtype is None or of(dtype).kind is Kind.FLOAT:
            continue
        cast = ir.Node("", "Cast", [node.inputs[0]], [ir.AttrInt64("to", dtype)])
        take_place(node, [cast])
