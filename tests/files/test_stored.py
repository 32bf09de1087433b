"""Tensors of a file tell their own shape, whatever is declared for the value that has them."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.files import read_model
from onnxcast.files.stored import StoredTensor


@pytest.mark.parametrize("declared", [None, [3, 2], ["n", "n"]])
def test_a_stored_tensor_has_its_own_shape(declared: list[int | str] | None) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4,2] x) => (float[4,3] y) '
        "{ y = MatMul (x, w) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 3), "<f4"), "w"))
    if declared is not None:
        info = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, declared)
        model.graph.value_info.append(info)
    value = read_model(model).model.graph.initializers["w"]
    assert type(value.const_value) is StoredTensor
    assert value.const_value.shape == [2, 3]
    assert value.shape == ([2, 3] if declared is None else declared)
    value.shape = ir.Shape([6])
    assert value.const_value.shape == [2, 3]
