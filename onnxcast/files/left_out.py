"""Results that are left out at the end of a list whose length tells something.

onnx_ir writes none of them. For an op with as many results as one likes (If, Loop, Scan, Split)
that is another node, so they get names.
"""

import itertools
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from onnxcast.files.slots import all_nodes

__all__ = ["name_left_out"]


def name_left_out(model: ir.Model) -> None:
    """Name results of `model` that are left out where their number counts."""
    found = [
        value
        for node in _nodes(model)
        if (outputs := node.outputs) and not outputs[-1].name and _counts(node)
        for value in _left_out(node)
    ]
    if not found:
        return
    taken = {value.name for value in _values(model)}
    names = (f"left_out_{number}" for number in itertools.count(1))
    free = (name for name in names if name not in taken)
    for value in found:
        value.name = next(free)


def _left_out(node: ir.Node) -> list[ir.Value]:
    """Results without a name at the end of the list."""
    return list(itertools.takewhile(lambda value: not value.name, reversed(node.outputs)))[::-1]


def _counts(node: ir.Node) -> bool:
    """Whether the op of `node` may have any number of results."""
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
        return False
    outputs = onnx.defs.get_schema(node.op_type).outputs
    return outputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    scopes: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for scope in scopes:
        yield from all_nodes(scope)


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for scope in (model.graph, *(function.graph for function in model.functions.values())):
        for graph in (scope, *scope.subgraphs()):
            yield from graph.inputs
            yield from graph.initializers.values()
            for node in graph:
                yield from node.outputs
