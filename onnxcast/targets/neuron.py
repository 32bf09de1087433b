"""AWS Trainium: what its tensor engine multiplies. A proposal: no rule is public.

Sources: Neuron SDK documentation (``nki.isa.nc_matmul``, error codes EVRF051 and EVRF052, data
types); the rows follow from them and from the tokens of ``--fp32-cast``. No table of conversions is
public either, so none is held against a model.
"""

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.targets.rows import Operand, Pair
from onnxcast.targets.target import Target

__all__ = ["TRN1", "TRN2", "TRN3"]

_F32, _F32R, _F64 = formats.FLOAT32, formats.float32r(), formats.FLOAT64
_F16, _BF16 = formats.FLOAT16, formats.BFLOAT16
_E4, _E4M3FN, _E5M2 = formats.FLOAT8E4, formats.FLOAT8E4M3FN, formats.FLOAT8E5M2
_INTEGERS = (formats.INT8, formats.UINT8, formats.INT16, formats.INT32, formats.INT64)

_TOKENS = "proposal, after --fp32-cast"
_MATMUL = "proposal, after nki.isa.nc_matmul"
_ADVICE = (
    (
        "neuronx-cc reads no ONNX: bring the model there by a framework, and compile with "
        "--auto-cast=none, which leaves its types as they were proved"
    ),
)

_WHOLE = "proposal: integers are multiplied in float32, which data types.rst says"


def _operands(takes_e4m3fn: bool) -> tuple[Operand, ...]:
    wanted = (_F32, _BF16, _F16, _F32R, _E4)
    return (
        *(Operand(wide, each, each, _TOKENS) for wide in (_F32, _F64) for each in wanted),
        Operand(_F32R, None, _F32R, _MATMUL),
        *(Operand(each, _E4, _E4, _TOKENS) for each in (_BF16, _F16)),
        *(Operand(each, None, each, _MATMUL) for each in (_BF16, _F16, _E4, _E5M2)),
        Operand(_E4M3FN, None, _E4M3FN, f"{_MATMUL}, v4")
        if takes_e4m3fn
        else Operand(
            _E4M3FN, None, _BF16, "proposal, after EVRF051; bfloat16 holds all its values"
        ),
        *(Operand(each, None, _F32, _WHOLE) for each in _INTEGERS),
    )


def _pairs(takes_e4m3fn: bool) -> tuple[Pair, ...]:
    """float32 and float32r meet each other only, and so do all narrow ones."""
    narrow: tuple[Format, ...] = (_BF16, _F16, _E4, _E5M2)
    if takes_e4m3fn:
        narrow += (_E4M3FN,)
    return tuple(
        Pair(one, other, _F32, _MATMUL)
        for side in ((_F32, _F32R), narrow)
        for one in side
        for other in side
        if {one, other} != {_E4, _E4M3FN}  # EVRF052: legacy and OCP float8 are not mixed
    )


def _target(name: str, *aliases: str, takes_e4m3fn: bool = False) -> Target:
    return Target(
        name=name,
        aliases=aliases,
        preferred=_BF16,
        operands=_operands(takes_e4m3fn),
        pairs=_pairs(takes_e4m3fn),
        float8e4=_E4,
        advice=_ADVICE,
    )


TRN1 = _target("trn1", "inf2", "gen2")
TRN2 = _target("trn2", "gen3")
TRN3 = _target("trn3", "gen4", takes_e4m3fn=True)
