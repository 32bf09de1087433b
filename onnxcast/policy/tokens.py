"""The words for what is narrowed and to what: tokens, scopes and dtypes (Neuron's --fp32-cast)."""

import enum

from onnxcast.formats import BFLOAT16, FLOAT8E4M3FN, FLOAT16, Format, float32r

__all__ = ["DTYPES", "TOKENS", "Scope", "canonical_token"]


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

TOKENS: dict[str, tuple[Scope, Format | None]] = {
    "none": (Scope.NONE, None),
    "all": (Scope.ALL, BFLOAT16),
    "all-bf16": (Scope.ALL, BFLOAT16),
    "all-fp16": (Scope.ALL, FLOAT16),
    "experimental-all-fp16": (Scope.ALL, FLOAT16),
    "all-fp32r": (Scope.ALL, float32r()),
    "all-fp8e4": (Scope.ALL, FLOAT8E4M3FN),
    "matmult": (Scope.MATMULT, BFLOAT16),
    "matmult-bf16": (Scope.MATMULT, BFLOAT16),
    "matmult-fp16": (Scope.MATMULT, FLOAT16),
    "matmult-fp32r": (Scope.MATMULT, float32r()),
    "matmult-fp8e4": (Scope.MATMULT, FLOAT8E4M3FN),
    "inputs": (Scope.INPUTS, BFLOAT16),
    "inputs-bf16": (Scope.INPUTS, BFLOAT16),
    "inputs-fp16": (Scope.INPUTS, FLOAT16),
    "inputs-fp32r": (Scope.INPUTS, float32r()),
    "inputs-fp8e4": (Scope.INPUTS, FLOAT8E4M3FN),
}

_ALIASES = ("all", "matmult", "inputs", "experimental-all-fp16")


def canonical_token(scope: Scope, format_: Format | None) -> str:
    """The token of a scope and a format, of whatever width if that is float32r."""
    narrow = DTYPES["fp32r"] if format_ is not None and format_.dtype is None else format_
    return next(
        name for name, meant in TOKENS.items() if meant == (scope, narrow) and name not in _ALIASES
    )
