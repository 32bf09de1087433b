"""A model as a proto for onnx to infer from: no weights, names of nodes or notes.

`onnx_ir.to_proto` writes all of a model; half of its time goes into what no inference looks at.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

__all__ = ["in_memory", "skeleton"]

_LARGE = 1024
"""Initializers of more bytes are no shapes, and are not handed to the inference."""

_MATRIX = 2
"""The rank from which on a tensor is no shape either."""

_Scope = tuple[ir.Graph, onnx.GraphProto | onnx.FunctionProto]


def skeleton(model: ir.Model, *, valid: bool = False) -> onnx.ModelProto:
    """`model` without the contents of large initializers.

    Args:
        model: It is not changed.
        valid: Whether it is a model for onnx's checker, too, which would look for files in the
            current folder: tensors are whole, wherever their data is, but for initializers of the
            main graph that no shape is inferred from, which are graph inputs.

    Raises:
        onnx_ir.serde.SerdeError: A tensor cannot be read.
    """
    proto = onnx.ModelProto(ir_version=model.ir_version)
    _import(proto.opset_import, model.opset_imports)
    pending: list[_Scope] = [(model.graph, proto.graph)]
    for function in model.functions.values():
        copy = proto.functions.add(domain=function.domain, name=function.name)
        if function.overload:
            copy.overload = function.overload
        _import(copy.opset_import, function.opset_imports)
        copy.input.extend(value.name or "" for value in function.inputs)
        copy.output.extend(value.name or "" for value in function.outputs)
        for attribute in function.attributes.values():
            if attribute.value is None:
                copy.attribute.append(attribute.name)
            else:
                ir.serde.serialize_attribute_into(copy.attribute_proto.add(), attribute)
        pending.append((function.graph, copy))
    while pending:
        scope, copied = pending.pop()
        nodes = list(scope)
        if isinstance(copied, onnx.GraphProto):
            _declare(scope, nodes, copied)
            if valid:
                _add_whole(scope, copied, as_inputs=scope is model.graph)
            else:
                _add_light(scope, copied)
        pending.extend(_nodes(nodes, copied, whole=valid))
    return proto


def _import(imports: object, versions: Mapping[str, int]) -> None:
    for domain, version in versions.items():
        imports.add(domain=domain, version=version)  # type: ignore[attr-defined] # protobuf's own


def _declare(graph: ir.Graph, nodes: Iterable[ir.Node], proto: onnx.GraphProto) -> None:
    """Copy what is known of the values of `graph`."""
    proto.name = graph.name or ""
    for value in graph.inputs:
        ir.serde.serialize_value_into(proto.input.add(), value)
    for value in graph.outputs:
        ir.serde.serialize_value_into(proto.output.add(), value)
    for node in nodes:
        for value in node.outputs:
            if value.type is not None and not value.is_graph_output():
                ir.serde.serialize_value_into(proto.value_info.add(), value)


def _add_light(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Copy the initializers of `graph`, of large ones type and shape."""
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        copy = proto.initializer.add()
        if tensor.nbytes <= _LARGE:
            ir.serde.serialize_tensor_into(copy, tensor)
        else:
            copy.data_type = tensor.dtype
            copy.dims.extend(tensor.shape.numpy())
            copy.data_location = onnx.TensorProto.EXTERNAL
        copy.name = name


def _add_whole(graph: ir.Graph, proto: onnx.GraphProto, *, as_inputs: bool) -> None:
    """Copy the initializers of `graph`, or take what is no shape for inputs of its type."""
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        # Matrices are weights: to round and copy them takes longer than all the rest.
        if not as_inputs or (len(tensor.shape) < _MATRIX and tensor.nbytes <= _LARGE):
            copy = proto.initializer.add()
            ir.serde.serialize_tensor_into(copy, in_memory(tensor))
            copy.name = name
        elif not value.is_graph_input():
            proto.input.add(name=name).type.CopyFrom(_type(tensor.dtype, tensor.shape.numpy()))


@functools.lru_cache(64)
def _type(dtype: ir.DataType, sizes: tuple[int, ...]) -> onnx.TypeProto:
    """A tensor's type; most of the weights of a model have one of few."""
    type_ = onnx.TypeProto()
    type_.tensor_type.elem_type = dtype
    type_.tensor_type.shape.SetInParent()  # also of a scalar
    for size in sizes:
        type_.tensor_type.shape.dim.add(dim_value=size)
    return type_


def in_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """`tensor`, or a view of it that does not tell that its data is in a file."""
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    shape = ir.Shape(tensor.shape.numpy())
    return ir.LazyTensor(lambda: tensor, tensor.dtype, shape, name=tensor.name)


def _nodes(
    nodes: Iterable[ir.Node], proto: onnx.GraphProto | onnx.FunctionProto, *, whole: bool
) -> Iterator[_Scope]:
    """Copy `nodes`; yield the scopes inside, whose copies are empty so far.

    Args:
        nodes: Those of one scope.
        proto: What they are copied to.
        whole: Whether tensors that they hold are copied with their data, if that is in a file.
    """
    add = proto.node.add
    for node in nodes:
        copy = add()
        copy.op_type = node.op_type
        if node.domain:
            copy.domain = node.domain
        if node.overload:
            copy.overload = node.overload
        copy.input.extend(["" if value is None else value.name or "" for value in node.inputs])
        copy.output.extend([value.name or "" for value in node.outputs])
        attributes = node.attributes.data
        for attribute in attributes.values() if attributes else ():
            yield from _attribute(attribute, copy.attribute.add(), whole=whole)


def _attribute(attribute: ir.Attr, proto: onnx.AttributeProto, *, whole: bool) -> Iterator[_Scope]:
    if attribute.is_ref():
        ir.serde.serialize_reference_attribute_into(proto, attribute)
    elif attribute.type is ir.AttributeType.GRAPH:
        proto.name, proto.type = attribute.name, onnx.AttributeProto.GRAPH
        proto.g.SetInParent()
        yield attribute.as_graph(), proto.g
    elif attribute.type is ir.AttributeType.GRAPHS:
        proto.name, proto.type = attribute.name, onnx.AttributeProto.GRAPHS
        for graph in attribute.as_graphs():
            yield graph, proto.graphs.add()
    elif attribute.type is ir.AttributeType.INT:  # most, as of all Casts
        proto.name, proto.type, proto.i = attribute.name, onnx.AttributeProto.INT, attribute.value
    elif whole and attribute.type is ir.AttributeType.TENSOR:
        held = in_memory(attribute.as_tensor())
        ir.serde.serialize_attribute_into(proto, ir.AttrTensor(attribute.name, held))
    elif whole and attribute.type is ir.AttributeType.TENSORS:
        several = list(map(in_memory, attribute.as_tensors()))
        ir.serde.serialize_attribute_into(proto, ir.AttrTensors(attribute.name, several))
    else:
        ir.serde.serialize_attribute_into(proto, attribute)
