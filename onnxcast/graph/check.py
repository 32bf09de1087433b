"""Whether a model is valid ONNX, as onnx's own checker says."""

import contextlib
import functools
import graphlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError, OnnxcastError
from onnxcast.files import tensor_slots
from onnxcast.files.ahead import aside
from onnxcast.files.maps import put_back
from onnxcast.files.read import root_cause
from onnxcast.graph import native
from onnxcast.graph.skeleton import in_memory, skeleton
from onnxcast.graph.walk import label, main_nodes, nested_scopes

__all__ = ["check_functions", "fault", "look_for_fault", "without_files"]

_LENGTH = 300

_MOST = 1_000_000
"""How many nodes a model may have with the bodies of functions in place of their calls."""

_DEEPEST = 100
"""How deep functions may call one another: the bound of onnx's checker, which misses some."""


def check_functions(model: ir.Model) -> None:
    """Refuse what onnx's checker lets pass in functions and calls, and nothing can run.

    Raises:
        InputError: A subgraph gives a value of another scope, a node reads none, a call has more
            operands than its function, or another number of results, or an attribute of a type that
            its function does not read, or functions call one another in a circle, or too deep, or
            too often.
    """
    if not model.functions:
        return
    main, inside = list(main_nodes(model)), dict[ir.OperatorIdentifier, list[ir.Node]]()
    for name, function in model.functions.items():
        inside[name] = []
        for graph, nodes in nested_scopes(function.graph):
            _check_body(graph, nodes)
            inside[name] += nodes
    _check_unfolding(main, inside)
    read = {name: _attributes_read(each, inside[name]) for name, each in model.functions.items()}
    for node in itertools.chain(main, *inside.values()):
        called = model.functions.get(node.op_identifier())
        if called is not None:
            _check_call(node, called)
            _check_attributes(node.attributes, read[called.identifier()], f"call {label(node)}")


def _check_body(graph: ir.Graph, nodes: Iterable[ir.Node]) -> None:
    for value in graph.outputs:
        if not _is_made_in(graph, value):
            raise InputError(
                f"graph {graph.name!r} in a function gives {value.name!r}, which is not made "
                "in it: make it there, by an Identity"
            )
    for node in nodes:
        lacking = next((value for value in node.inputs if _is_nowhere(value)), None)
        if lacking is not None:
            raise InputError(
                f"{label(node)} in a function reads {lacking.name!r}, which nothing gives: "
                "name a value of the function"
            )


def _check_call(node: ir.Node, function: ir.Function) -> None:
    taken, given = len(function.inputs), len(function.outputs)
    if len(node.inputs) > taken or len(node.outputs) != given:
        raise InputError(
            f"call {label(node)} has {len(node.inputs)} operands and {len(node.outputs)} "
            f"results, function {function.domain}::{function.name} has {taken} and {given}"
            ": make them agree"
        )


def _attributes_read(
    function: ir.Function, nodes: Iterable[ir.Node]
) -> dict[str, ir.AttributeType]:
    """The types that `function`, of these `nodes`, reads its attributes as."""
    read: dict[str, ir.AttributeType] = {}
    shown = f"function {function.domain}::{function.name}"
    for node in nodes:
        for attribute in node.attributes.data.values():
            if attribute.is_ref():
                name = attribute.ref_attr_name or ""
                _check_attributes({name: attribute}, read, shown)
                read[name] = attribute.type
    _check_attributes(function.attributes, read, shown)
    return read


def _check_attributes(
    given: Mapping[str, ir.Attr], read: Mapping[str, ir.AttributeType], shown: str
) -> None:
    for name, attribute in given.items():
        wanted = read.get(name, attribute.type)
        has_value = attribute.is_ref() or attribute.value is not None
        if has_value and attribute.type != wanted:
            raise InputError(
                f"{shown} has attribute {name!r} of type {attribute.type.name}, the function reads "
                f"it as {wanted.name}: make them agree"
            )


def _is_nowhere(value: ir.Value | None) -> bool:
    if value is None or value.producer() is not None:
        return False
    return not (value.is_graph_input() or value.is_initializer())


def _check_unfolding(
    main: Iterable[ir.Node], inside: Mapping[ir.OperatorIdentifier, Iterable[ir.Node]]
) -> None:
    """Bound the depth of calls, and the nodes that are there with all bodies in place of calls.

    Args:
        main: The nodes outside functions.
        inside: Those of each function.
    """
    calls = {name: [node.op_identifier() for node in nodes] for name, nodes in inside.items()}
    depths: dict[ir.OperatorIdentifier, int] = {}
    sizes: dict[ir.OperatorIdentifier, int] = {}
    for name in _innermost_first(calls):
        depths[name] = 1 + max((depths.get(called, 0) for called in calls[name]), default=0)
        sizes[name] = sum(sizes.get(called, 1) for called in calls[name])
    if max(depths.values()) > _DEEPEST:
        raise InputError(
            f"functions call one another more than {_DEEPEST} deep; wanted fewer; inline some"
        )
    if sum(sizes.get(node.op_identifier(), 1) for node in main) > _MOST:
        raise InputError(
            f"functions that unfold to more than {_MOST} nodes; wanted fewer; take calls out"
        )


def _innermost_first(
    calls: Mapping[ir.OperatorIdentifier, list[ir.OperatorIdentifier]],
) -> Iterable[ir.OperatorIdentifier]:
    inner = {name: {each for each in called if each in calls} for name, called in calls.items()}
    try:
        return list(graphlib.TopologicalSorter(inner).static_order())
    except graphlib.CycleError as error:
        names = " -> ".join(f"{domain}::{name}" for domain, name, _ in reversed(error.args[1]))
        raise InputError(
            f"functions call one another in a circle: {names}; make them end"
        ) from None


def _is_made_in(graph: ir.Graph, value: ir.Value) -> bool:
    node = value.producer()
    if node is None:
        return value in graph.inputs or value.is_initializer()
    return node.graph is graph


def fault(model: ir.Model, *, full: bool) -> str:
    """What onnx's checker says of `model`, on one line; "" if it accepts it.

    Args:
        model: It is as it was afterwards.
        full: Whether shapes and types are inferred and must agree with the declared ones.

    Raises:
        InputError: The model has parts that cannot be written, or its data cannot be read.
    """
    return look_for_fault(model, full=full)()


def look_for_fault(model: ir.Model, *, full: bool) -> Callable[[], str]:
    """Begin what `fault` does; what is returned waits for what it returns.

    The model may be read in between, and written too.
    """
    try:
        proto = put_back(skeleton(model, valid=True))
    except ValueError as error:  # for a type that is none
        why = _one_line(error)
        return lambda: why
    except ir.serde.SerdeError as error:
        cause = root_cause(error)
        if isinstance(cause, OnnxcastError | OSError):
            raise cause from None
        raise InputError(
            f"onnx_ir cannot write this model ({_one_line(cause)}); wanted text in UTF-8 and types "
            "that ONNX has; take that part out of the model"
        ) from None
    return aside(functools.partial(_said, proto, full=full))


def _said(proto: onnx.ModelProto, *, full: bool) -> str:
    """What the checker says; the basic check's word where inference dies of the model."""
    try:
        native.check(proto, full=full)
    except native.NativeFailure as failure:
        return _said(proto, full=False) if failure.died and full else _one_line(failure)
    return ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_LENGTH]


@contextlib.contextmanager
def without_files(model: ir.Model) -> Iterator[None]:
    """Hide that tensors are in files, which the checker would look for in the current folder.

    A proto made inside holds their data. It is read only then: the checker is not handed large
    weights.
    """
    external = [slot for slot in tensor_slots(model) if isinstance(slot.tensor, ir.ExternalTensor)]
    for slot in external:
        slot.put(in_memory(slot.tensor))
    try:
        yield
    finally:
        for slot in external:
            slot.put(slot.tensor)
