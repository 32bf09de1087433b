"""What the light peers do with a file: ``python -m tests.benchmarks.light_peer NAME IN OUT``."""

import importlib
import sys

import onnx

MODULES = {
    "onnxconverter-common": "onnxconverter_common.float16",
    "onnxruntime": "onnxruntime.transformers.float16",
}


def main() -> None:
    """Load, convert, save, as their documentation says for models of more than 2 GB."""
    name, source, target = sys.argv[1:]
    convert = importlib.import_module(MODULES[name]).convert_float_to_float16
    result = convert(onnx.load(source), disable_shape_infer=True)
    onnx.save(result, target, save_as_external_data=True, location="peer.data")


if __name__ == "__main__":
    main()
