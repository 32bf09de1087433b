"""What the user asked for (`request`) and what ops mean for precision (`meanings`)."""

from onnxcast.policy.meanings import MEANINGS, Meaning, Row, has_meaning
from onnxcast.policy.request import DTYPES, TOKENS, Functions, Policy, Scope, make_policy

__all__ = [
    "DTYPES",
    "MEANINGS",
    "TOKENS",
    "Functions",
    "Meaning",
    "Policy",
    "Row",
    "Scope",
    "has_meaning",
    "make_policy",
]
