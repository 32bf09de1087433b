"""What the user asked for (`request`) and what ops mean for precision (`meanings`)."""

from onnxcast.policy.io_types import IoTypes
from onnxcast.policy.meanings import MEANINGS, Meaning, Row, has_meaning, multiplied
from onnxcast.policy.request import Functions, MatmulOutput, Minimise, Policy, make_policy
from onnxcast.policy.selection import Choice, Chooser, Selection
from onnxcast.policy.tokens import DTYPES, TOKENS, Scope

__all__ = [
    "DTYPES",
    "MEANINGS",
    "TOKENS",
    "Choice",
    "Chooser",
    "Functions",
    "IoTypes",
    "MatmulOutput",
    "Meaning",
    "Minimise",
    "Policy",
    "Row",
    "Scope",
    "Selection",
    "has_meaning",
    "make_policy",
    "multiplied",
]
