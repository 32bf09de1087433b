"""Names and nesting of a model, as strangers may have made them."""

__all__ = ["check_attributes", "check_names", "check_nesting"]

from collections.abc import Sequence
from typing import Any

import onnx

from onnxcast.errors import InputError
from onnxcast.files.protos import Parts, bodies

_MOST_GRAPHS = 32
"""Graphs inside one another: more do not fit in the 100 messages that parsers take."""


def check_nesting(model: onnx.ModelProto, shown: str) -> None:
    """Check that no more than 32 graphs stand inside one another, as in a model from a file.

    Raises:
        InputError: More do.
    """
    inner: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    for _ in range(_MOST_GRAPHS):
        inner = [graph for scope in inner for node in scope.node for graph in bodies(node)]
        if not inner:
            return
    raise InputError(
        f"{shown}: more than {_MOST_GRAPHS} graphs inside one another; wanted fewer; flatten it"
    )


def check_names(model: Parts, shown: str) -> None:
    """Check that names are text without NUL, where runtimes would cut them.

    Raises:
        InputError: One is not.
    """
    for scope in model.scopes:
        _check_text(_names(scope), shown)
    _check_text([attribute.name for _, attribute, _ in model.attributes], shown)


def check_attributes(model: Parts, shown: str) -> None:
    """Check that attributes have a type, and refer only to those of the function around them.

    Raises:
        InputError: One is not so.
    """
    for node, attribute, declared in model.attributes:
        if attribute.type == onnx.AttributeProto.UNDEFINED:
            raise InputError(f"{_shown(attribute, node, shown)} has no type; wanted one")
        if attribute.ref_attr_name and attribute.ref_attr_name not in declared:
            raise InputError(
                f"{_shown(attribute, node, shown)} refers to {attribute.ref_attr_name!r}, which no "
                "function around it declares; wanted a value"
            )


def _shown(attribute: onnx.AttributeProto, node: onnx.NodeProto, shown: str) -> str:
    return f"{shown}: attribute {attribute.name!r} of node {node.name!r} ({node.op_type})"


def _check_text(names: Sequence[Any], shown: str) -> None:
    if "\0" in "".join(names):
        found = next(name for name in names if "\0" in name)
        raise InputError(f"{shown}: the name {found!r} holds NUL; wanted a name without; rename it")


def _names(scope: onnx.GraphProto | onnx.FunctionProto) -> list[str]:
    """The names in `scope`; what nodes read is named where it is made, or nowhere and refused."""
    names = [scope.name, *(info.name for info in scope.value_info)]
    for node in scope.node:
        names += (node.name, node.op_type, node.domain, *node.output)
    if isinstance(scope, onnx.FunctionProto):
        return [*names, scope.domain, *scope.input, *scope.output, *scope.attribute]
    names += [sparse.values.name for sparse in scope.sparse_initializer]
    return names + [each.name for each in (*scope.input, *scope.output, *scope.initializer)]
