"""Graph outputs that are graph inputs or initializers themselves: one value, declared twice.

`onnx_ir` holds one declaration for it, and takes the output's.
"""

__all__ = ["keep_own_declarations"]

import onnx

from onnxcast.errors import InputError


def keep_own_declarations(proto: onnx.ModelProto, shown: str) -> None:
    """Declare such outputs of `proto` as what they are; `shown` is the model's name in messages.

    Of an initializer's two shapes the output's stays, which may have names for its dimensions.

    Raises:
        InputError: The two declarations give different element types.
    """
    graph = proto.graph
    outputs = {info.name for info in graph.output}
    inputs = {info.name: info.type for info in graph.input if info.name in outputs}
    tensors = {
        tensor.name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for tensor in graph.initializer
        if tensor.name in outputs
    }
    own = {**tensors, **inputs}
    for output in graph.output:
        if output.name not in own:
            continue
        found, wanted = _kind(output.type), _kind(own[output.name])
        if found != wanted and "" not in (found, wanted):
            what = "a graph input" if output.name in inputs else "an initializer"
            raise InputError(
                f"{shown}: output {output.name!r} is declared {found}, it is {what} of type "
                f"{wanted}; declare both alike"
            )
        if output.name in inputs:
            output.type.CopyFrom(inputs[output.name])


def _kind(type_: onnx.TypeProto) -> str:
    """The element type of a tensor, else which kind of type it is; "" if it is not said."""
    kind = type_.WhichOneof("value") or ""
    if kind != "tensor_type":
        return kind
    element = type_.tensor_type.elem_type
    known = element in onnx.TensorProto.DataType.values() and element != onnx.TensorProto.UNDEFINED
    return onnx.TensorProto.DataType.Name(element).lower() if known else ""
