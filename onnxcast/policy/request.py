"""What the user asked for: scope, number format, and what to keep wide.

A *token* is the string form (``all-fp16``, ``matmult``), as in Neuron's ``--fp32-cast``; scope and
dtype are the friendly spelling of the same.
"""

import dataclasses
import difflib
import enum
import fnmatch
from collections.abc import Iterable
from typing import TypedDict, TypeVar

from onnxcast.errors import InputError
from onnxcast.formats import BFLOAT16, FLOAT16, Format

_T = TypeVar("_T")

__all__ = ["DTYPES", "TOKENS", "Functions", "Policy", "Scope", "make_policy"]


class Scope(enum.Enum):
    """Which type groups may be narrowed."""

    ALL = "all"
    MATMULT = "matmult"
    NONE = "none"


class Functions(enum.Enum):
    """What happens to model-local functions."""

    KEEP = "keep"
    SPECIALISE = "specialise"
    INLINE = "inline"


DTYPES: dict[str, Format] = {
    "bf16": BFLOAT16,
    "bfloat16": BFLOAT16,
    "fp16": FLOAT16,
    "float16": FLOAT16,
}

TOKENS: dict[str, tuple[Scope, Format | None]] = {
    "none": (Scope.NONE, None),
    "all": (Scope.ALL, BFLOAT16),
    "all-bf16": (Scope.ALL, BFLOAT16),
    "all-fp16": (Scope.ALL, FLOAT16),
    "experimental-all-fp16": (Scope.ALL, FLOAT16),
    "matmult": (Scope.MATMULT, BFLOAT16),
    "matmult-bf16": (Scope.MATMULT, BFLOAT16),
    "matmult-fp16": (Scope.MATMULT, FLOAT16),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """A resolved request.

    Attributes:
        scope: Which type groups may be narrowed.
        format: The narrow format; None for scope ``none`` only.
        keep_ops: Op types that stay wide (shell patterns).
        keep_nodes: Node names that stay wide (shell patterns).
        functions: Whether bodies of model-local functions are kept, narrowed per call type, or
            inlined first. Calls take and give float32 in any case.
    """

    scope: Scope
    format: Format | None
    keep_ops: frozenset[str] = frozenset()
    keep_nodes: frozenset[str] = frozenset()
    functions: Functions = Functions.SPECIALISE

    def __post_init__(self) -> None:
        if (self.format is None) != (self.scope is Scope.NONE):
            raise InputError(
                f"scope {self.scope.value} with format {self.format}: "
                "a format is wanted exactly when something is narrowed"
            )

    @property
    def token(self) -> str:
        """The canonical token of scope and format."""
        return next(
            name
            for name, (scope, format_) in TOKENS.items()
            if scope is self.scope and format_ == self.format and name not in ("all", "matmult")
        )

    def keeps_op(self, op: str) -> bool:
        """Whether an op type stays wide by request."""
        return _matches(op, self.keep_ops)

    def keeps_node(self, name: str | None) -> bool:
        """Whether a node stays wide by request."""
        return bool(name) and _matches(name or "", self.keep_nodes)


class _Kept(TypedDict):
    keep_ops: frozenset[str]
    keep_nodes: frozenset[str]
    functions: Functions


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def make_policy(  # noqa: PLR0913 - one keyword per option, as on the command line
    *,
    fp32_cast: str | None = None,
    scope: str | None = None,
    dtype: str | None = None,
    preferred: Format | None = None,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
    functions: str = "specialise",
) -> Policy:
    """Resolve a token, or a scope and a dtype, to a policy.

    Without any of them the scope is ``all``. A scope without a dtype takes `preferred`, the
    target's format, else float16; only the bare token ``all`` means bfloat16.

    Raises:
        InputError: An unknown token, scope, dtype or mode of functions (the known ones are
            listed), a token together with a scope or dtype, or patterns that are no list.
    """
    if fp32_cast is not None and (scope is not None or dtype is not None):
        raise InputError(
            f"token {fp32_cast!r} together with a scope or dtype: give the token or the other two"
        )
    keep: _Kept = {
        "keep_ops": _patterns("keep_ops", keep_ops),
        "keep_nodes": _patterns("keep_nodes", keep_nodes),
        "functions": _known("functions", functions, {member.value: member for member in Functions}),
    }
    if fp32_cast is not None:
        chosen, format_ = _known("token", fp32_cast, TOKENS)
        return Policy(scope=chosen, format=format_, **keep)
    scopes = {member.value: member for member in Scope}
    chosen = _known("scope", "all" if scope is None else scope, scopes)
    if chosen is Scope.NONE:
        if dtype is not None:
            raise InputError(f"dtype {dtype!r} with scope none: nothing is narrowed; drop one")
        return Policy(scope=chosen, format=None, **keep)
    narrow = _known("dtype", dtype, DTYPES) if dtype is not None else preferred or FLOAT16
    return Policy(scope=chosen, format=narrow, **keep)


def _patterns(kind: str, given: object) -> frozenset[str]:
    # A string is a sequence of strings too: 'Conv' would keep the ops C, o, n and v.
    if isinstance(given, Iterable) and not isinstance(given, str):
        found = list(given)
        if all(isinstance(each, str) for each in found):
            return frozenset(found)
    raise InputError(f"{kind} {given!r}: a list of patterns is wanted, such as ['Softmax']")


def _known(kind: str, name: object, table: dict[str, _T]) -> _T:
    if not isinstance(name, str) or name not in table:
        near = difflib.get_close_matches(str(name), table, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"unknown {kind} {name!r}: known are {', '.join(table)}{hint}")
    return table[name]
