"""What the user asked for (`request`) and what ops mean for precision (`meanings`)."""

from onnxcast.policy.meanings import MEANINGS, Meaning, Row, has_meaning
from onnxcast.policy.request import DTYPES, TOKENS, Policy, Scope, make_policy

__all__ = [
    "DTYPES",
    "MEANINGS",
    "TOKENS",
    "Meaning",
    "Policy",
    "Row",
    "Scope",
    "has_meaning",
    "make_policy",
]
