"""A model that is written in onnxscript."""

from onnxscript import FLOAT, script
from onnxscript import opset18 as op

import onnxcast


@script()
def attention(query: FLOAT[4, 8], key: FLOAT[6, 8], value: FLOAT[6, 8]) -> FLOAT[4, 8]:
    return op.MatMul(op.Softmax(op.MatMul(query, op.Transpose(key))), value)


result = onnxcast.optimize(attention.to_model_proto(), fp32_cast="matmult-fp16")
result.save("attention.onnx")
