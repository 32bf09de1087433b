"""The end of an export with TorchScript, which writes a file."""

import torch

import onnxcast

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
x = torch.randn(2, 16)
torch.onnx.export(model, (x,), "scripted.onnx", dynamo=False, input_names=["x"], opset_version=17)
result = onnxcast.optimize("scripted.onnx", fp32_cast="all-fp16", inputs={"x": x.numpy()})
print("largest error", result.report.proof.worst.max_error)
result.save("scripted.fp16.onnx")
