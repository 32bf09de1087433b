"""onnxcast: mixed precision for ONNX models, proved with onnxruntime."""
