"""Marks: formats that have no ONNX type, written beside values and nodes that stay float32.

After (float32r)::

    y = MatMul (x, w)    # node metadata: onnxcast.operands = "0:float32r 1:float32r"
                         # metadata of y: onnxcast.format = "float32r"

The hardware rounds what is marked; elsewhere the model runs as it is.
"""

from collections.abc import Iterable

import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.formats import Format
from onnxcast.graph.walk import label, model_nodes
from onnxcast.planning.plan import Form, Plan

__all__ = ["carry_out_marks", "forget_marks", "is_marked", "marked_format", "marked_operands"]

FORMAT = "onnxcast.format"
"""Key in a value's metadata_props: the format of its elements."""

OPERANDS = "onnxcast.operands"
"""Key in a node's metadata_props: the formats of its operands by index."""

_KEYS = frozenset({FORMAT, OPERANDS})


def carry_out_marks(model: ir.Model, plan: Plan, nodes: Iterable[ir.Node]) -> bool:
    """Let the marks of `model` be those of `plan`; return whether that changed any.

    Args:
        model: Where the marks are.
        plan: Tells what they are to be.
        nodes: All of `model` that may bear one.
    """
    before = _marks(nodes)
    for holder in before:  # what is none of ours is not taken away
        _ = marked_operands(holder) if isinstance(holder, ir.Node) else marked_format(holder)
    marked = [(group, each) for group, each in plan.narrow() if each.form is Form.MARKED]
    if not (before or marked):
        return False
    forget_marks(model)
    for group, decision in marked:
        read = {index: decision.read_in(index) for index in decision.reads}
        operands = {**marked_operands(group.node), **read}
        if operands:
            group.node.metadata_props[OPERANDS] = " ".join(
                f"{index}:{format_.name}" for index, format_ in sorted(operands.items())
            )
        for value in group.result_values() if decision.gives else ():
            value.metadata_props[FORMAT] = decision.format.name
            if value.type is None:  # a value_info must have one
                value.type = plan.types.of(value)
    return _marks(model_nodes(model)) != before


def marked_operands(node: ir.Node) -> dict[int, Format]:
    """The formats in which `node` is marked to read its operands, by index.

    Raises:
        InputError: The mark is none of ours.
    """
    text = node.metadata_props.get(OPERANDS, "")
    found = {}
    for item in text.split():
        index, _, name = item.partition(":")
        if index not in map(str, range(len(node.inputs))):
            raise _malformed(f"node {label(node)}", OPERANDS, text)
        found[int(index)] = _format(f"node {label(node)}", OPERANDS, name)
    return found


def marked_format(value: ir.Value) -> Format | None:
    """The format that the elements of `value` are marked to have; None if it is its type's.

    Raises:
        InputError: The mark is none of ours.
    """
    name = value.metadata_props.get(FORMAT, "")
    return _format(f"value {value.name}", FORMAT, name) if name else None


def _format(holder: str, key: str, name: str) -> Format:
    try:
        return formats.by_name(name)
    except InputError:
        raise _malformed(holder, key, name) from None


def _malformed(holder: str, key: str, text: str) -> InputError:
    return InputError(
        f"{holder}: metadata {key} is {text!r}, float32r or INDEX:float32r is wanted; remove it"
    )


def is_marked(model: ir.Model) -> bool:
    """Whether any value or node of `model` bears a mark."""
    return bool(_marks(model_nodes(model)))


def forget_marks(model: ir.Model) -> None:
    """Remove all marks."""
    for holder in _marks(model_nodes(model)):
        holder.metadata_props.pop(FORMAT, None)
        holder.metadata_props.pop(OPERANDS, None)


def _marks(nodes: Iterable[ir.Node]) -> dict[ir.Node | ir.Value, str]:
    """Whatever of `nodes` and their results bears a mark, with what that says."""
    nodes = list(nodes)
    noted: list[ir.Node | ir.Value] = [node for node in nodes if node.metadata_props]
    noted += [value for node in nodes for value in node.outputs if value.metadata_props]
    return {
        holder: holder.metadata_props.get(FORMAT, "") + holder.metadata_props.get(OPERANDS, "")
        for holder in noted
        if not _KEYS.isdisjoint(holder.metadata_props)
    }
