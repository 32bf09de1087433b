"""Names and nesting of a model, as strangers may have made them."""

__all__ = ["check_names", "check_nesting"]

from collections import Counter

import onnx

from onnxcast.errors import InputError
from onnxcast.files.protos import bodies, scopes

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
    """Check that names are without NUL, where runtimes would cut them, and outputs have their own.

    Raises:
        InputError: A name with NUL, or a name for two outputs of a graph.
    """
    for scope in scopes(model):
        names = _names(scope)
        if "\0" in "".join(names):
            found = next(name for name in names if "\0" in name)
            raise InputError(
                f"{shown}: the name {found!r} holds NUL; wanted a name without; rename it"
            )
        if isinstance(scope, onnx.GraphProto):
            _check_outputs(scope, shown)


def _check_outputs(graph: onnx.GraphProto, shown: str) -> None:
    counts = Counter(output.name for output in graph.output)
    for name, count in counts.items():
        if count > 1:
            raise InputError(
                f"{shown}: graph {graph.name!r} has {count} outputs with the name {name!r}; wanted "
                "one of each name; rename or remove the others"
            )


def _names(scope: onnx.GraphProto | onnx.FunctionProto) -> list[str]:
    names = [scope.name, *(info.name for info in scope.value_info)]
    for node in scope.node:
        names += (node.name, node.op_type, node.domain, *node.input, *node.output)
        names += (attribute.name for attribute in node.attribute)
    if isinstance(scope, onnx.FunctionProto):
        return [*names, scope.domain, *scope.input, *scope.output, *scope.attribute]
    return names + [each.name for each in (*scope.input, *scope.output, *scope.initializer)]
