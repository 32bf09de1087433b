"""Whether a model is valid ONNX, as onnx's own checker says."""

import contextlib
from collections.abc import Iterator

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import CheckerPass

from onnxcast.files import has_maps, tensor_slots, to_proto

__all__ = ["fault", "without_files"]

_LENGTH = 300


def fault(model: ir.Model, *, full: bool) -> str:
    """What onnx's checker says of `model`, on one line; "" if it accepts it.

    Args:
        model: It is as it was afterwards.
        full: Whether shapes and types are inferred and must agree with the declared ones.
    """
    with without_files(model):
        try:
            if has_maps(model):  # which onnx_ir would leave out; such models are small
                onnx.checker.check_model(to_proto(model), full_check=full)
            else:
                CheckerPass(full_check=full)(model)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            return " ".join(str(error).split())[:_LENGTH]
    return ""


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
