"""A workflow of Olive with onnxcast as its last pass."""

import sys

from olive.workflows import run

from onnxcast.olive import package_config

source, output = sys.argv[1:]
workflow = {
    "input_model": {"type": "OnnxModel", "model_path": source},
    "passes": {
        "simpler": {"type": "OnnxPeepholeOptimizer"},
        "narrow": {"type": "OnnxCast", "fp32_cast": "all-fp16"},
    },
    "output_dir": output,
}
run(workflow, package_config=package_config())
