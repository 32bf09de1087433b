"""The end of an export with torch.export: the program stays one, with half of the bytes."""

import torch

import onnxcast

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten()).eval()
image = torch.randn(1, 3, 16, 16)
program = torch.onnx.export(model, (image,), input_names=["image"], verbose=False)
result = onnxcast.optimize(program, fp32_cast="all-fp16", inputs={"image": image.numpy()})
program = result.program
print("largest difference", (model(image) - program(image)[0]).abs().max().item())
program.save("program.onnx")
