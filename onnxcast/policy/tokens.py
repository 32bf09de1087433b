"""The words for what is narrowed and to what: tokens, scopes and dtypes (Neuron's --fp32-cast)."""

import enum
from typing import NamedTuple

from onnxcast.formats import BFLOAT16, FLOAT8E4M3FN, FLOAT16, Format, float32r

__all__ = ["DTYPES", "NARROWINGS", "TOKENS", "Meant", "Narrowing", "Scope", "canonical_token"]


class Scope(enum.Enum):
    """Which type groups may be narrowed."""

    ALL = "all"
    MATMULT = "matmult"
    INPUTS = "inputs"
    NONE = "none"


DTYPES: dict[str, Format] = {
    "bf16": BFLOAT16,
    "bfloat16": BFLOAT16,
    "fp16": FLOAT16,
    "float16": FLOAT16,
    "fp32r": float32r(),
    "float32r": float32r(),
    "fp8e4": FLOAT8E4M3FN,
    "float8e4m3fn": FLOAT8E4M3FN,
}


class Narrowing(NamedTuple):
    """What float32 is narrowed to.

    Attributes:
        format: The narrow format.
        fallback: What values get that leave its range; None if they stay float32.
    """

    format: Format
    fallback: Format | None = None


NARROWINGS: dict[str, Narrowing] = {
    **{name: Narrowing(format_) for name, format_ in DTYPES.items()},
    "mixed": Narrowing(FLOAT16, BFLOAT16),
}
"""By the names that ``--dtype`` takes."""


class Meant(NamedTuple):
    """What a token means; the format is None for scope ``none`` only."""

    scope: Scope
    format: Format | None = None
    fallback: Format | None = None


TOKENS: dict[str, Meant] = {
    "none": Meant(Scope.NONE),
    "all": Meant(Scope.ALL, BFLOAT16),
    "all-bf16": Meant(Scope.ALL, BFLOAT16),
    "all-fp16": Meant(Scope.ALL, FLOAT16),
    "experimental-all-fp16": Meant(Scope.ALL, FLOAT16),
    "all-mixed": Meant(Scope.ALL, *NARROWINGS["mixed"]),
    "all-fp32r": Meant(Scope.ALL, float32r()),
    "all-fp8e4": Meant(Scope.ALL, FLOAT8E4M3FN),
    "matmult": Meant(Scope.MATMULT, BFLOAT16),
    "matmult-bf16": Meant(Scope.MATMULT, BFLOAT16),
    "matmult-fp16": Meant(Scope.MATMULT, FLOAT16),
    "matmult-mixed": Meant(Scope.MATMULT, *NARROWINGS["mixed"]),
    "matmult-fp32r": Meant(Scope.MATMULT, float32r()),
    "matmult-fp8e4": Meant(Scope.MATMULT, FLOAT8E4M3FN),
    "inputs": Meant(Scope.INPUTS, BFLOAT16),
    "inputs-bf16": Meant(Scope.INPUTS, BFLOAT16),
    "inputs-fp16": Meant(Scope.INPUTS, FLOAT16),
    "inputs-fp32r": Meant(Scope.INPUTS, float32r()),
    "inputs-fp8e4": Meant(Scope.INPUTS, FLOAT8E4M3FN),
}

_ALIASES = ("all", "matmult", "inputs", "experimental-all-fp16")


def canonical_token(scope: Scope, format_: Format | None, fallback: Format | None = None) -> str:
    """The token of a scope and a format, of whatever width if that is float32r."""
    narrow = DTYPES["fp32r"] if format_ is not None and format_.dtype is None else format_
    wanted = Meant(scope, narrow, fallback)
    return next(name for name, meant in TOKENS.items() if meant == wanted and name not in _ALIASES)
