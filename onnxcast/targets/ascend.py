"""Huawei Ascend at kernel level: what ``pto.tcvt`` converts and what the cube unit multiplies.

Sources: hw-native-sys/pypto (``backend_910b_handler.cpp``, ``backend_950_handler.cpp``), whose
order of conversions is kept; hw-native-sys/pto-isa (``TCvt.hpp``, ``TMatmul.hpp``) for saturation,
rounding and operands; AscendC ``Cast`` where pto-isa leaves it to the ambient control bits.
"""

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.targets.names import format_of
from onnxcast.targets.rows import NativeCast, Operand, Overflow, Pair, Rounding
from onnxcast.targets.target import Target

__all__ = ["ASCEND910B", "ASCEND950"]

_Behaviour = tuple[Overflow, Rounding, str]

_A2A3 = """
fp32: fp16 bf16 int16 int32 int64
fp16: fp32 int32 int16 int8 uint8 int4
bf16: fp32 int32
int16: fp16 fp32
int32: fp32 int16 int64 fp16
int64: fp32 int32
uint8: fp16
int8: fp16
int4: fp16
"""

_A5 = """
fp32: fp16 bf16 int16 int32 int64 fp8e4m3 fp8e5m2 hf8
fp16: fp32 int32 int16 int8 uint8 hf8
bf16: fp32 int32 fp16 fp4
int16: fp16 fp32 uint8 uint32 int32
int32: fp32 int16 int64 uint16 uint8
int64: fp32 int32
uint8: fp16 uint16
int8: fp16 int16 int32
uint32: uint8 uint16 int16
fp8e4m3: fp32
fp8e5m2: fp32
hf8: fp32
fp4: bf16
"""

_CLAMPS = (Overflow.SATURATES, Rounding.CHOSEN, "pto-isa TCvt.hpp: saturation on by default")
_WRAPS = (Overflow.WRAPS, Rounding.CHOSEN, "pto-isa TCvt.hpp: saturation off by default")
_NO_MODE = (Overflow.SATURATES, Rounding.UNKNOWN, "pto-isa TCvt.hpp: saturates, has no mode")
_DROPS = (Overflow.WRAPS, Rounding.UNKNOWN, "pto-isa TCvt.hpp: keeps the low bits, has no mode")
_UNSETTLED = (
    Overflow.UNKNOWN,
    Rounding.CHOSEN,
    "pto-isa asks for saturation, AscendC says that another control bit decides",
)
_AMBIENT = (
    Overflow.SATURATES,
    Rounding.EVEN,
    "pto-isa a5: always RINT; AscendC: saturates",
)
_AWAY = (Overflow.SATURATES, Rounding.AWAY, "pto-isa a5: always ROUND; AscendC: saturates")

_BOTH: dict[str, _Behaviour] = {
    "fp32 fp16": _UNSETTLED,
    "fp32 bf16": _UNSETTLED,
    "fp32 int32": _CLAMPS,
    "fp32 int64": _CLAMPS,
    "fp16 int32": _CLAMPS,
    "bf16 int32": _CLAMPS,
    "fp16 int4": _CLAMPS,
    "fp32 int16": _WRAPS,
    "fp16 int16": _WRAPS,
    "fp16 int8": _WRAPS,
    "fp16 uint8": _WRAPS,
    "int16 fp16": _CLAMPS,
    "int32 fp32": _CLAMPS,
    "int64 fp32": _CLAMPS,
    "int64 int32": _DROPS,
    "int32 int16": _DROPS,
    "int32 fp16": _NO_MODE,
}

_A5_ALONE: dict[str, _Behaviour] = {
    "fp32 fp8e4m3": _AMBIENT,
    "fp32 fp8e5m2": _AMBIENT,
    "fp32 hf8": _AWAY,
    "fp16 hf8": _AWAY,
    "bf16 fp4": _CLAMPS,
    "bf16 fp16": _CLAMPS,
    "int32 uint16": _NO_MODE,
    "int32 uint8": _NO_MODE,
    "int16 uint8": _NO_MODE,
    "int16 uint32": _NO_MODE,
    "uint32 uint8": _NO_MODE,
    "uint32 uint16": _NO_MODE,
    "uint32 int16": _NO_MODE,
}


def _casts(table: str, behaviour: dict[str, _Behaviour], evidence: str) -> tuple[NativeCast, ...]:
    """The rows of a table of conversions, in its order."""
    rows = []
    for line in table.split("\n")[1:-1]:
        source, _, targets = line.partition(":")
        for target in targets.split():
            overflow, rounding, cause = behaviour.get(
                f"{source} {target}", (Overflow.UNKNOWN, Rounding.UNKNOWN, "")
            )
            text = f"{evidence}; {cause}" if cause else evidence
            rows.append(NativeCast(format_of(source), format_of(target), overflow, rounding, text))
    return tuple(rows)


_F32, _F16, _BF16, _I8 = formats.FLOAT32, formats.FLOAT16, formats.BFLOAT16, formats.INT8
_E4M3, _E5M2, _HF8 = formats.FLOAT8E4M3FN, formats.FLOAT8E5M2, formats.HIFLOAT8
_F32R = formats.float32r()


def _wanted(evidence: str, *wanted: Format) -> tuple[Operand, ...]:
    """float32 becomes what is wanted, among these."""
    return tuple(Operand(_F32, each, each, evidence) for each in (_F32, *wanted))


def _itself(evidence: str, *given: Format) -> tuple[Operand, ...]:
    return tuple(Operand(each, None, each, evidence) for each in given)


def _alike(evidence: str, *given: Format) -> tuple[Pair, ...]:
    """Two of the same float sum in float32, two of int8 in int32."""
    sums = {_I8: formats.INT32}
    return tuple(Pair(each, each, sums.get(each, _F32), evidence) for each in given)


_MMAD_910B = "pto-isa a2a3/TMatmul.hpp; AscendC Mmad, A2 and A3"
_MMAD_950 = "pto-isa a5/TMatmul.hpp; AscendC Mmad, 950"

_ADVICE = (
    "the Casts are those of kernels (pto.tcvt): ATC has others, give it a model for its own target",
)

ASCEND910B = Target(
    name="ascend910b",
    aliases=("a2a3",),
    preferred=_F16,
    casts=_casts(_A2A3, _BOTH, "pypto backend_910b_handler.cpp"),
    operands=(
        *_wanted(_MMAD_910B, _F16, _BF16),
        *_itself(_MMAD_910B, _F16, _BF16, _I8),
        *(
            Operand(each, None, _F16, "no float8 in Mmad; float16 holds all its values")
            for each in (_E4M3, _E5M2)
        ),
    ),
    pairs=_alike(_MMAD_910B, _F16, _BF16, _F32, _I8),
    advice=_ADVICE,
)

ASCEND950 = Target(
    name="ascend950",
    aliases=("a5",),
    preferred=_F16,
    casts=_casts(_A5, {**_BOTH, **_A5_ALONE}, "pypto backend_950_handler.cpp"),
    operands=(
        *_wanted(_MMAD_950, _F16, _BF16, _E4M3, _E5M2),
        Operand(_F32, _F32R, _F32R, "AscendC HF32.md: float32 rounded before the product"),
        *_itself(_MMAD_950, _F16, _BF16, _E4M3, _E5M2, _HF8, _F32R, _I8),
    ),
    pairs=(
        *_alike(_MMAD_950, _F16, _BF16, _F32, _F32R, _HF8, _I8),
        *(Pair(one, other, _F32, _MMAD_950) for one in (_E4M3, _E5M2) for other in (_E4M3, _E5M2)),
    ),
    advice=_ADVICE,
)
