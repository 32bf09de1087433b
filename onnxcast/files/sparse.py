"""Sparse constants made dense: `onnx_ir` drops sparse initializers and has no sparse tensors.

A sparse initializer and `Constant(sparse_value=...)` stand for a dense tensor (onnxruntime makes
it one when it loads the model), so the meaning stays; only the space that was saved is lost.
"""

__all__ = ["make_dense"]

import logging
import math

import numpy as np
import onnx
from onnx import numpy_helper

from onnxcast.errors import InputError
from onnxcast.files.protos import Parts

logger = logging.getLogger(__name__)

_LARGEST_BYTES = 2**30


def make_dense(model: Parts, folder: str, shown: str) -> None:
    """Turn the sparse initializers and sparse constants of `model` into dense ones, in place.

    Args:
        model: The model to change: its graphs, subgraphs and functions.
        folder: The folder of external data.
        shown: How messages name the model.

    Raises:
        InputError: A sparse tensor that is an attribute of another op, or larger than 1 GiB dense.
    """
    for scope in model.scopes:
        if isinstance(scope, onnx.GraphProto) and scope.sparse_initializer:
            for sparse in scope.sparse_initializer:
                scope.initializer.append(_dense(sparse, folder, shown))
            del scope.sparse_initializer[:]
    for node, attribute, _ in model.attributes:
        if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
            _densify_constant(node, attribute, folder, shown)


def _densify_constant(
    node: onnx.NodeProto, attribute: onnx.AttributeProto, folder: str, shown: str
) -> None:
    if (node.domain, node.op_type) != ("", "Constant") or attribute.ref_attr_name:
        raise InputError(
            f"{shown}: node {node.name!r} ({node.op_type}) has the sparse tensor "
            f"{attribute.name!r}; wanted sparse tensors in Constant only; make it dense"
        )
    dense = _dense(attribute.sparse_tensor, folder, shown)
    attribute.ClearField("sparse_tensor")
    attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
    attribute.t.CopyFrom(dense)


def _dense(sparse: onnx.SparseTensorProto, folder: str, shown: str) -> onnx.TensorProto:
    values = numpy_helper.to_array(sparse.values, folder)
    indices = numpy_helper.to_array(sparse.indices, folder)
    shape, name = tuple(sparse.dims), sparse.values.name
    if values.dtype.hasobject or math.prod(shape) * values.dtype.itemsize > _LARGEST_BYTES:
        raise InputError(
            f"{shown}: the sparse constant {name!r} of shape {list(shape)} cannot be made dense; "
            f"wanted numbers, at most {_LARGEST_BYTES} bytes; replace it before converting"
        )
    dense = np.zeros(shape, values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    logger.info("%s: sparse constant %r stored dense, %d bytes", shown, name, dense.nbytes)
    return numpy_helper.from_array(dense, name)
