"""Runtimes that take ONNX as it is: onnxruntime with its CUDA provider, and TensorRT.

Sources: onnxruntime's session options and its kernels (``docs/OperatorKernels.md``); TensorRT's
ONNX opset guide, its pages on operators, and on migration from 10.x to 11.x.
"""

from onnxcast import formats
from onnxcast.targets.rows import Operand, Pair
from onnxcast.targets.target import Target

__all__ = ["ONNXRUNTIME_CUDA", "TENSORRT"]

_F32, _F16, _BF16, _F64 = formats.FLOAT32, formats.FLOAT16, formats.BFLOAT16, formats.FLOAT64

_SESSION = (
    "import onnxruntime, sys; onnxruntime.InferenceSession(sys.argv[1], "
    "providers=['CUDAExecutionProvider', 'CPUExecutionProvider'])"
)

ONNXRUNTIME_CUDA = Target(
    name="onnxruntime-cuda",
    preferred=_F16,
    command=f'python -c "{_SESSION}" {{model}}',
    advice=(
        "name the CUDA provider first: that for the CPU computes float16 in float32",
        "leave optimization.enable_cast_chain_elimination off: it drops Casts that round",
    ),
)

_MATMUL = "TensorRT operators: MatrixMultiply, Convolution"

TENSORRT = Target(
    name="tensorrt",
    aliases=("trt",),
    preferred=_F16,
    operands=(
        *(Operand(_F32, each, each, _MATMUL) for each in (_F32, _F16, _BF16)),
        Operand(_F16, None, _F16, _MATMUL),
        Operand(_BF16, None, _BF16, _MATMUL),
        Operand(_F64, None, _F64, "the ONNX parser reads float64 as float32"),
    ),
    pairs=tuple(Pair(each, each, _F32, _MATMUL) for each in (_F32, _F16, _BF16)),
    opsets=(9, 25),
    command="trtexec --onnx={model} --saveEngine={stem}.engine --stronglyTyped",
    advice=(
        "--stronglyTyped keeps the types of the model, which TensorRT 11 does without it too",
        "leave out --fp16, --bf16, --int8, --best: by them TensorRT 10 chooses types not proved",
    ),
)
