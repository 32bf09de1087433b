"""Put the bodies of model-local functions in place of their calls, in linear time.

For every name that is there already, the pass of `onnx_ir` looks through all that it made of it
before: 30 seconds for 1,000 calls of functions of 99 nodes that are named alike, and 2 here.
"""

import itertools
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxcast.errors import RefusedError
from onnxcast.files.shells import shell
from onnxcast.graph.edit import Names
from onnxcast.graph.schemas import ONNX_DOMAINS
from onnxcast.graph.walk import label, model_nodes, nested_scopes

__all__ = ["inline", "refusal"]

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def refusal(why: str) -> RefusedError:
    """The error where functions cannot be inlined."""
    return RefusedError(
        f"functions cannot be inlined ({why}): repair the model, or leave its functions as they "
        "are (--functions keep)"
    )


def inline(model: ir.Model) -> bool:
    """Inline all calls of `model`, which has passed `check_functions`.

    What is new keeps its name where that is free. Functions that were called go, others stay.

    Returns:
        Whether there were calls.

    Raises:
        RefusedError: A function imports another version of a domain than where it is called, or
            takes a graph as an attribute.
    """
    functions = dict(model.functions)
    called = {name for node in model_nodes(model) if (name := node.op_identifier()) in functions}
    if not called:
        return False
    scopes: list[ir.Model | ir.Function] = [model]
    scopes += [function for name, function in functions.items() if name not in called]
    for scope in scopes:
        _Inliner(model, scope, functions).expand()
    for name in called:
        del model.functions[name]
    return True


class _Inliner:
    """Inlines calls in the main graph of `model`, or in a function that nobody calls."""

    def __init__(
        self,
        model: ir.Model,
        scope: ir.Model | ir.Function,
        functions: Mapping[ir.OperatorIdentifier, ir.Function],
    ) -> None:
        self._imports = scope.opset_imports
        self._functions = functions
        graphs, nodes = zip(*nested_scopes(scope.graph), strict=True)
        found = list(graphs), list(itertools.chain.from_iterable(nodes))
        self._pending = self._calls(found[1])
        self._values, self._nodes = Names(model, found), Names(model, found)
        self._held: dict[tuple[ir.OperatorIdentifier, str], str] = {}
        self._shells: dict[int, ir.TensorProtocol] = {}  # by tensors that the functions hold

    def expand(self) -> None:
        """Inline all calls, and those that come with what is inlined."""
        while self._pending:
            self._replace(self._pending.pop())

    def _calls(self, nodes: Sequence[ir.Node]) -> list[ir.Node]:
        """The calls among `nodes`, the last one first."""
        return [node for node in reversed(nodes) if node.op_identifier() in self._functions]

    def _replace(self, call: ir.Node) -> None:
        """Put a body in place of `call`; the calls in it are next."""
        function = self._functions[call.op_identifier()]
        self._import(function)
        body = function.clone().graph
        given = {each.name: each for each in function.attributes.values() if each.value is not None}
        given.update(call.attributes)
        if any(attribute.type in _GRAPHS for attribute in given.values()):
            raise refusal(f"call {label(call)} has a graph as an attribute")
        scopes = list(nested_scopes(body))
        for graph, nodes in scopes:
            if graph is not body:
                self._rename_held(graph, function)
            for node in nodes:
                node.name = self._nodes.fresh(node.name) if node.name else node.name
                self._rename_results(node)
                _resolve(node, given)
                if call.metadata_props:
                    node.metadata_props.update({**call.metadata_props, **node.metadata_props})
        self._pending += self._calls([node for _, nodes in scopes for node in nodes])
        self._copy_operands(body, call)
        _put_in_place(body, call)

    def _copy_operands(self, body: ir.Graph, call: ir.Node) -> None:
        """Let what `body` hands on be values of its own: the operands of `call` have names."""
        for index, value in enumerate(body.outputs):
            if value.producer() is None and call.outputs[index].name:
                name = self._nodes.fresh(f"{call.outputs[index].name}_copy")
                copy = ir.node("Identity", [value], name=name)
                body.append(copy)
                body.outputs[index] = copy.outputs[0]

    def _import(self, function: ir.Function) -> None:
        for domain, version in function.opset_imports.items():
            known = self._imports.setdefault(domain, version)
            if known != version:
                shown = domain or ONNX_DOMAINS[1]
                name = f"{function.domain}::{function.name}"
                raise refusal(
                    f"domain {shown} has version {known} where the call is, but version {version} "
                    f"in the function {name}"
                )

    def _rename_results(self, node: ir.Node) -> None:
        for value in node.outputs:
            if value.name:
                known, value.const_value = value.const_value, None  # which the original shares
                value.name = self._values.fresh(value.name)
                value.const_value = known

    def _rename_held(self, graph: ir.Graph, function: ir.Function) -> None:
        """Rename what is fed to `graph` or stored in it, in all copies of `function` alike.

        No copy is inside another, so that they may share names, and the tensors under them.
        """
        stored = list(graph.initializers.values())
        graph.initializers.clear()
        for value in dict.fromkeys((*graph.inputs, *stored)):
            key = function.identifier(), value.name or ""
            if key not in self._held:
                self._held[key] = self._values.fresh(key[1])
            if value.const_value is not None and self._held[key] != value.name:
                value.const_value = self._shell(value.const_value)
            value.name = self._held[key]
        graph.initializers.update({value.name or "": value for value in stored})

    def _shell(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """The one shell of `tensor`, which all its copies share."""
        if id(tensor) not in self._shells:
            self._shells[id(tensor)] = shell(tensor)
        return self._shells[id(tensor)]


def _resolve(node: ir.Node, given: Mapping[str, ir.Attr]) -> None:
    """Let attributes of `node` that refer to those of its function be those `given`, or go."""
    for name, attribute in list(node.attributes.items()):
        if not attribute.is_ref():
            continue
        found = given.get(attribute.ref_attr_name or "")
        if found is None:
            del node.attributes[name]
        elif found.is_ref():  # of the function that the call is in
            node.attributes[name] = ir.RefAttr(name, found.ref_attr_name or "", found.type)
        else:
            node.attributes[name] = ir.Attr(name, found.type, found.value)


def _put_in_place(body: ir.Graph, call: ir.Node) -> None:
    """Move the nodes of `body` to where `call` is, which goes."""
    nodes, results = list(body), list(body.outputs)
    body.outputs.clear()
    for formal, actual in itertools.zip_longest(body.inputs, call.inputs):
        if actual is not None:
            formal.replace_all_uses_with(actual)
            continue
        for node, index in formal.uses():
            node.replace_input_with(index, None)
    body.remove(nodes)
    named = [pair for pair in zip(call.outputs, results, strict=True) if pair[0].name]
    assert call.graph is not None
    ir.convenience.replace_nodes_and_values(
        call.graph, call, [call], nodes, [old for old, _ in named], [new for _, new in named]
    )
