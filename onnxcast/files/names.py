"""Names and nesting of a model, as strangers may have made them."""

__all__ = ["check_attributes", "check_names", "check_nesting"]

from collections.abc import Iterable, Iterator, Sequence

import onnx

from onnxcast.errors import InputError
from onnxcast.files.protos import bodies, nested, scopes

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


def check_names(model: onnx.ModelProto, shown: str) -> None:
    """Check that names are text without NUL, where runtimes would cut them.

    Raises:
        InputError: One is not.
    """
    for scope in scopes(model):
        _check_text(_names(scope), shown)


def check_attributes(model: onnx.ModelProto, shown: str) -> None:
    """Check that attributes have a type, and refer only to those of the function around them.

    Raises:
        InputError: One is not so.
    """
    for node, attribute in _attributes(scopes(model)):
        if attribute.type == onnx.AttributeProto.UNDEFINED:
            raise InputError(f"{_shown(attribute, node, shown)} has no type; wanted one")
    _check_references([model.graph], set(), shown)
    for function in model.functions:
        declared = {*function.attribute, *(each.name for each in function.attribute_proto)}
        _check_references([function], declared, shown)


def _check_references(
    roots: Sequence[onnx.GraphProto | onnx.FunctionProto], declared: set[str], shown: str
) -> None:
    for node, attribute in _attributes(nested(roots)):
        if attribute.ref_attr_name and attribute.ref_attr_name not in declared:
            raise InputError(
                f"{_shown(attribute, node, shown)} refers to {attribute.ref_attr_name!r}, which no "
                "function around it declares; wanted a value"
            )


def _attributes(
    found: Iterable[onnx.GraphProto | onnx.FunctionProto],
) -> Iterator[tuple[onnx.NodeProto, onnx.AttributeProto]]:
    for scope in found:
        for node in scope.node:
            for attribute in node.attribute:
                yield node, attribute


def _shown(attribute: onnx.AttributeProto, node: onnx.NodeProto, shown: str) -> str:
    return f"{shown}: attribute {attribute.name!r} of node {node.name!r} ({node.op_type})"


def _check_text(names: Sequence[object], shown: str) -> None:
    found = next((name for name in names if not isinstance(name, str)), None)
    if found is not None:  # protobuf gives bytes that are no text as bytes
        raise InputError(f"{shown}: the name {found!r} is not UTF-8; wanted text; rename it")
    found = next((name for name in names if isinstance(name, str) and "\0" in name), None)
    if found is not None:
        raise InputError(f"{shown}: the name {found!r} holds NUL; wanted a name without; rename it")


def _names(scope: onnx.GraphProto | onnx.FunctionProto) -> list[str]:
    names = [scope.name, *(info.name for info in scope.value_info)]
    for node in scope.node:
        names += (node.name, node.op_type, node.domain, *node.input, *node.output)
        names += (attribute.name for attribute in node.attribute)
    if isinstance(scope, onnx.FunctionProto):
        return [*names, scope.domain, *scope.input, *scope.output, *scope.attribute]
    return names + [each.name for each in (*scope.input, *scope.output, *scope.initializer)]
