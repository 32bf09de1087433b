"""Signatures of com.microsoft ops, which onnx has no schemas for: one table.

A type is listed only where onnxruntime's CUDA provider has a kernel for it, so that an op is
narrowed only where the kernel exists. Source: onnxruntime docs/OperatorKernels.md, section
CUDAExecutionProvider, domain com.microsoft, each op's type variables as printed there.
"""

import dataclasses
from collections.abc import Mapping

__all__ = ["CONTRIB", "CONTRIB_DOMAIN", "ContribOp"]

CONTRIB_DOMAIN = "com.microsoft"

_FLOAT = ("float",)
_FLOAT16 = ("float", "float16")
_BOTH = ("float", "float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class ContribOp:
    """One op.

    Attributes:
        operands: Type variables of the operands in order, separated by blanks.
        results: The same of the results.
        types: Float element types that T may take; the other variables are integers.
    """

    operands: str
    results: str
    types: tuple[str, ...]


CONTRIB: Mapping[str, ContribOp] = {
    "Attention": ContribOp("T T T M T T M", "T T", _BOTH),
    "BiasAdd": ContribOp("T T T", "T", _FLOAT16),
    "BiasGelu": ContribOp("T T", "T", _BOTH),
    "BiasSoftmax": ContribOp("T T", "T", _FLOAT16),
    "BiasSplitGelu": ContribOp("T T", "T", _FLOAT16),
    "EmbedLayerNormalization": ContribOp("M M T T T T T M M", "T M T", _FLOAT16),
    "FastGelu": ContribOp("T T", "T", _BOTH),
    "FusedConv": ContribOp("T T T T", "T", _FLOAT),
    "FusedMatMul": ContribOp("T T", "T", _BOTH),
    "Gelu": ContribOp("T", "T", _BOTH),
    "MatMulNBits": ContribOp("T I T Z G T", "T", _BOTH),
    "MultiHeadAttention": ContribOp("T T T T M T T T M M", "T T T QK", _BOTH),
    "NhwcConv": ContribOp("T T T", "T", _FLOAT16),
    "QuickGelu": ContribOp("T", "T", _BOTH),
    "RotaryEmbedding": ContribOp("T M T T", "T", _BOTH),
    "SkipLayerNormalization": ContribOp("T T T T T", "T tensor(float) tensor(float) T", _BOTH),
    "SkipSimplifiedLayerNormalization": ContribOp(
        "T T T T", "T tensor(float) tensor(float) T", _BOTH
    ),
    "TransposeMatMul": ContribOp("T T", "T", _BOTH),
}
