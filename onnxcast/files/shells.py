"""Tensors that share their numbers and not their names: to rename a value renames its tensor."""

__all__ = ["shell"]

import onnx_ir as ir


def shell(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return a tensor with a name of its own that shares the numbers of `tensor`."""
    name, doc, metadata = tensor.name, tensor.doc_string, dict(tensor.metadata_props) or None
    if isinstance(tensor, ir.ExternalTensor):
        return ir.ExternalTensor(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=tensor.shape,
            name=tensor.name,
            doc_string=doc,
            metadata_props=metadata,
            base_dir=tensor.base_dir,
        )
    shape = ir.Shape(tensor.shape.numpy())
    if isinstance(tensor, ir.StringTensor):
        return ir.StringTensor(
            tensor.raw, shape=shape, name=name, doc_string=doc, metadata_props=metadata
        )
    return ir.LazyTensor(
        lambda: tensor,
        tensor.dtype,
        shape,
        name=name,
        doc_string=doc,
        metadata_props=metadata,
    )
