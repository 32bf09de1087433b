"""A folder as optimum writes it: each model in it is converted, all else is taken along."""

import shutil
import sys
from pathlib import Path

import onnxcast

source, output = map(Path, sys.argv[1:])
shutil.copytree(source, output, ignore=shutil.ignore_patterns("*.onnx", "*.onnx_data"))
for path in sorted(source.rglob("*.onnx")):
    result = onnxcast.optimize(path, fp32_cast="all-fp16")
    result.save(output / path.relative_to(source))
    print(path.name, result.report.before.tensor_bytes, "->", result.report.after.tensor_bytes)
