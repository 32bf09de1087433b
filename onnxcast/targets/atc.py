"""Huawei's ATC: what its compiler takes as an ONNX model, for people who deploy with it.

No table of conversions: CANN's Cast covers nearly all, and ATC fuses and drops Casts by itself.
Sources: CANN Graph Engine (``--framework``, ``onnx_common.h``, ``onnx_constant_parser.cc``,
``cast_remove_pass.cc``, ATC options), ops-math (``cast_onnx_plugin.cpp``), ops-nn
(``mat_mul_v3_def.cpp``).
"""

from onnxcast import formats
from onnxcast.targets.rows import Operand, Pair
from onnxcast.targets.target import Target

__all__ = ["ATC_ASCEND310P", "ATC_ASCEND910B"]

_F32, _F16, _BF16, _I8 = formats.FLOAT32, formats.FLOAT16, formats.BFLOAT16, formats.INT8
_E4M3, _E5M2 = formats.FLOAT8E4M3FN, formats.FLOAT8E5M2

# onnx_common.h maps the element types 1 to 16; bfloat16 is the last of them.
_CLASSIC = tuple(
    each for each in formats.FORMATS if each.dtype is not None and 1 <= each.dtype.value <= 15
)

_NO_PLUGIN = "no ONNX plugin in CANN; quantise with AMCT instead"
_REFUSED = tuple(
    (op, _NO_PLUGIN)
    for op in (
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearMatMul",
        "QLinearConv",
        "MatMulInteger",
        "ConvInteger",
    )
)

_ADVICE = (
    "compile with --precision_mode_v2=origin: by default ATC compiles every float to float16",
    "leave out --modify_mixlist, --keep_dtype and --customize_dtypes: they undo what was proved",
    "soc_version is Ascend and the name of the chip that npu-smi info shows",
    "Casts to a narrower float and back (--matmul-output wide) need --oo_level=O1: O3 drops them",
)


def _command(chip: str) -> str:
    flags = ("--framework=5", "--model={model}", "--output={stem}", f"--soc_version={chip}")
    return " ".join(("atc", *flags, "--precision_mode_v2=origin"))


_OPERATORS = "ops-nn mat_mul_v3_def.cpp"
_NO_FLOAT8 = "onnx_constant_parser.cc takes no float8 initializer"


ATC_ASCEND310P = Target(
    name="atc-ascend310p",
    preferred=_F16,
    operands=(
        Operand(_F32, None, _F16, f"{_OPERATORS}: 310P has float16 alone"),
        Operand(_F16, None, _F16, _OPERATORS),
        Operand(_BF16, None, None, f"{_OPERATORS}: 310P has no bfloat16"),
        Operand(_E4M3, None, None, _NO_FLOAT8),
        Operand(_E5M2, None, None, _NO_FLOAT8),
        Operand(_I8, None, _I8, "AscendC Mmad, 310P"),
    ),
    pairs=(
        Pair(_F16, _F16, _F32, "AscendC Mmad, 310P"),
        Pair(_I8, _I8, formats.INT32, "AscendC Mmad, 310P"),
    ),
    opsets=(8, 18),
    formats=_CLASSIC,
    one_domain=True,
    refused_ops=_REFUSED,
    command=_command("Ascend310P3"),
    advice=_ADVICE,
)

ATC_ASCEND910B = Target(
    name="atc-ascend910b",
    preferred=_F16,
    operands=(
        *(Operand(_F32, each, each, _OPERATORS) for each in (_F32, _F16, _BF16)),
        Operand(_F16, None, _F16, _OPERATORS),
        Operand(_BF16, None, _BF16, _OPERATORS),
        Operand(_E4M3, None, None, _NO_FLOAT8),
        Operand(_E5M2, None, None, _NO_FLOAT8),
        Operand(_I8, None, _I8, "AscendC Mmad, A2 and A3"),
    ),
    pairs=(
        *(Pair(each, each, _F32, _OPERATORS) for each in (_F32, _F16, _BF16)),
        Pair(_I8, _I8, formats.INT32, "AscendC Mmad, A2 and A3"),
    ),
    opsets=(8, 18),
    formats=(*_CLASSIC, _BF16),
    one_domain=True,
    refused_ops=_REFUSED,
    command=_command("Ascend910B3"),
    advice=_ADVICE,
)
