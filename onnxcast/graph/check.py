"""Whether a model is valid ONNX, as onnx's own checker says."""

import contextlib
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.files import tensor_slots, to_proto
from onnxcast.graph.walk import function_graphs, label, model_nodes

__all__ = ["check_functions", "fault", "without_files"]

_LENGTH = 300

_LARGE = 1000
"""Initializers of more bytes are not handed to the checker."""


def check_functions(model: ir.Model) -> None:
    """Refuse what onnx's checker lets pass in functions and calls, and nothing can run.

    Raises:
        InputError: A subgraph gives a value of another scope, or a call has more operands than
            its function, or another number of results.
    """
    for graph in function_graphs(model):
        for value in graph.outputs:
            if not _is_made_in(graph, value):
                raise InputError(
                    f"graph {graph.name!r} in a function gives {value.name!r}, which is not made "
                    "in it: make it there, by an Identity"
                )
    for node in model_nodes(model):
        function = model.functions.get(node.op_identifier())
        if function is None:
            continue
        taken, given = len(function.inputs), len(function.outputs)
        if len(node.inputs) > taken or len(node.outputs) != given:
            raise InputError(
                f"call {label(node)} has {len(node.inputs)} operands and {len(node.outputs)} "
                f"results, function {function.domain}::{function.name} has {taken} and {given}"
                ": make them agree"
            )


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
    """
    with _without_weights(model) as weights:
        proto = to_proto(model)
    proto.graph.input.extend(weights)
    try:
        onnx.checker.check_model(proto, full_check=full)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return " ".join(str(error).split())[:_LENGTH]
    return ""


@contextlib.contextmanager
def _without_weights(model: ir.Model) -> Iterator[list[onnx.ValueInfoProto]]:
    """Take the large initializers out of the main graph: the checker takes no more than 2 GiB.

    Yields:
        What the graph would have to take instead.
    """
    initializers = model.graph.initializers
    before = dict(initializers)
    large = {
        name: value.const_value
        for name, value in before.items()
        if value.const_value is not None and value.const_value.nbytes > _LARGE
    }
    inputs = [
        onnx.helper.make_tensor_value_info(name, tensor.dtype, tensor.shape.numpy())
        for name, tensor in large.items()
        if not before[name].is_graph_input()
    ]
    for name in large:
        del initializers[name]
    try:
        with without_files(model):
            yield inputs
    finally:
        if large:  # in their order
            initializers.clear()
            initializers.update(before)


@contextlib.contextmanager
def without_files(model: ir.Model) -> Iterator[None]:
    """Hide that tensors are in files, which the checker would look for in the current folder.

    A proto made inside holds their data. It is read only then: the checker is not handed large
    weights.
    """
    external = [slot for slot in tensor_slots(model) if isinstance(slot.tensor, ir.ExternalTensor)]
    for slot in external:
        slot.put(_lazy(slot.tensor))
    try:
        yield
    finally:
        for slot in external:
            slot.put(slot.tensor)


def _lazy(tensor: ir.TensorProtocol) -> ir.LazyTensor:
    shape = ir.Shape(tensor.shape.numpy())
    return ir.LazyTensor(lambda: tensor, tensor.dtype, shape, name=tensor.name)
