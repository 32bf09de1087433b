"""What the user asked for (`request`) and what ops mean for precision (`meanings`)."""

from onnxcast.policy.io_types import IoTypes
from onnxcast.policy.meanings import (
    MEANINGS,
    Meaning,
    Row,
    has_meaning,
    meanings_of,
    means_by_op,
    multiplied,
)
from onnxcast.policy.properties import (
    PROPERTIES,
    Properties,
    commutes,
    is_closed,
    may_commute,
)
from onnxcast.policy.request import (
    CastFolding,
    Functions,
    MatmulOutput,
    Minimise,
    Policy,
    make_policy,
)
from onnxcast.policy.selection import Choice, Chooser, Selection
from onnxcast.policy.tokens import DTYPES, TOKENS, Scope

__all__ = [
    "DTYPES",
    "MEANINGS",
    "PROPERTIES",
    "TOKENS",
    "CastFolding",
    "Choice",
    "Chooser",
    "Functions",
    "IoTypes",
    "MatmulOutput",
    "Meaning",
    "Minimise",
    "Policy",
    "Properties",
    "Row",
    "Scope",
    "Selection",
    "commutes",
    "has_meaning",
    "is_closed",
    "make_policy",
    "may_commute",
    "meanings_of",
    "means_by_op",
    "multiplied",
]
