"""A folder as optimum writes it: all its models are converted, and share their data as before."""

import shutil
import sys
from pathlib import Path

import onnxcast

source, output = map(Path, sys.argv[1:])
shutil.copytree(source, output, ignore=shutil.ignore_patterns("*.onnx", "*.onnx_data"))
models = {output / path.relative_to(source): path for path in sorted(source.rglob("*.onnx"))}
results = {new: onnxcast.optimize(old, fp32_cast="all-fp16") for new, old in models.items()}
for path in onnxcast.save_together(results):
    print(path, path.stat().st_size)
