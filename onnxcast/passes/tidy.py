"""Remove what nothing reads, and sort nodes if they are out of order.

Before::

    <float[4] W, float[4] W_unused>
    unused = Relu (x)
    y = Add (x, W)

After::

    <float[4] W>
    y = Add (x, W)

Keeps graph inputs, outputs, names, doc strings and metadata. Bit-exact.
"""

import itertools
from collections.abc import Iterator

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from onnxcast.graph.walk import bodies, model_graphs

__all__ = ["TidyPass"]


class TidyPass(ir.passes.InPlacePass):
    """Drops dead nodes and dead initializers of every scope; sorts."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Tidy `model`, function bodies included."""
        # To sort what is sorted changes nothing, and takes ten times as long as to see that it is.
        graphs: list[ir.Graph] = []
        scopes = (model.graph, *(function.graph for function in model.functions.values()))
        modified = False
        if not all(_is_sorted(scope, graphs) for scope in scopes):
            modified = TopologicalSortPass()(model).modified
            graphs = list(model_graphs(model))
        # Inner scopes first: what they no longer read may be dead outside.
        for graph in reversed(graphs):
            modified |= _drop_dead(graph)
        return ir.passes.PassResult(model, modified)


def _is_sorted(scope: ir.Graph, found: list[ir.Graph]) -> bool:
    """Whether every node comes after all that it, or a body of it, reads.

    Adds `scope` and all graphs inside to `found`, outer ones first, as far as it has to look.
    """
    found.append(scope)
    done: set[ir.Node] = set()
    pending: list[tuple[Iterator[ir.Node], ir.Node | None]] = [(iter(scope), None)]
    while pending:
        nodes, owner = pending[-1]
        for node in nodes:
            for value in node.inputs:
                producer = None if value is None else value.producer()
                if producer is not None and producer not in done:
                    return False
            inner = bodies(node) if node.attributes.data else []
            if inner:
                found.extend(inner)
                pending.append((itertools.chain.from_iterable(inner), node))
                break
            done.add(node)
        else:
            pending.pop()
            if owner is not None:
                done.add(owner)
    return True


def _drop_dead(graph: ir.Graph) -> bool:
    modified = False
    for node in reversed(graph):
        for output in node.outputs:  # a loop, as `any` takes longer for one or two
            if output.uses() or output.is_graph_output():
                break
        else:
            _release(node)
            graph.remove(node, safe=True)
            modified = True
    for value in list(graph.initializers.values()):
        if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
            assert value.name is not None
            del graph.initializers[value.name]
            modified = True
    return modified


def _release(node: ir.Node) -> None:
    """Let nothing inside the subgraphs of `node`, which goes, count as a reader."""
    pending = bodies(node)
    while pending:
        for inner in pending.pop():
            pending.extend(bodies(inner))
            for index in range(len(inner.inputs)):
                inner.replace_input_with(index, None)
