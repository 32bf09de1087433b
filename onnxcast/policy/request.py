"""What the user asked for: scope, number format, and what to keep wide or to narrow regardless.

A *token* is the string form (``all-fp16``, ``matmult``), as in Neuron's ``--fp32-cast``; scope and
dtype are the friendly spelling of the same.
"""

import dataclasses
import difflib
import enum
from collections.abc import Iterable, Mapping
from typing import TypedDict, TypeVar

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.formats import (
    FLOAT16,
    FLOAT32,
    FLOAT32R_BITS,
    Format,
    float32r,
)
from onnxcast.policy.io_types import IoTypes, parse_io_types
from onnxcast.policy.selection import Chooser, Selection
from onnxcast.policy.tokens import DTYPES, NARROWINGS, TOKENS, Meant, Scope, canonical_token

_T = TypeVar("_T")

__all__ = ["CastFolding", "Functions", "MatmulOutput", "Minimise", "Policy", "make_policy"]


class Functions(enum.Enum):
    """What happens to model-local functions."""

    KEEP = "keep"
    SPECIALISE = "specialise"
    INLINE = "inline"


class Minimise(enum.Enum):
    """What the placement of Casts makes least of."""

    BYTES = "bytes"
    CASTS = "casts"


class MatmulOutput(enum.Enum):
    """The type that a matmul-like op gives."""

    NARROW = "narrow"
    WIDE = "wide"


class CastFolding(enum.Enum):
    """Which Casts that a model came with may go."""

    EXACT = "exact"
    """Those that change no value."""

    DROP_NARROWING = "drop-narrowing"
    """Also round trips of floats to a narrower one and back, whose rounding is lost."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """A resolved request.

    Attributes:
        scope: Which type groups may be narrowed.
        format: The narrow format; None for scope ``none`` only.
        selection: What the user keeps wide, or narrows whatever the op means.
        functions: Whether bodies of model-local functions are kept, narrowed per call type, or
            inlined first. Calls take and give float32 in any case.
        matmul_output: Whether matmul-like ops run in the format, or in float32 on operands that
            were rounded to it.
        inline_cast: Whether a constant is stored in the format that its Cast gives.
        clamp_masks: Whether mask constants below the format's range become its lowest number.
        io_types: The element types that graph inputs and outputs shall have.
        exact_bridges: Whether chains of Casts may also go through formats that hold every value of
            the source.
        keep_illegal_casts: Whether Casts that the target cannot do are left alone.
        exact_chains: Whether every chain must give what one Cast gives.
        minimise: Whether Casts shall move the fewest bytes, or be the fewest.
        cast_folding: Which Casts that the model came with may go.
        fallback: A format of a wider range, for nodes whose values leave that of `format`; None if
            they stay float32.
    """

    scope: Scope
    format: Format | None
    selection: Selection = dataclasses.field(default_factory=Selection)
    functions: Functions = Functions.SPECIALISE
    matmul_output: MatmulOutput = MatmulOutput.NARROW
    inline_cast: bool = True
    clamp_masks: bool = False
    io_types: IoTypes = dataclasses.field(default_factory=IoTypes)
    exact_bridges: bool = False
    keep_illegal_casts: bool = False
    exact_chains: bool = False
    minimise: Minimise = Minimise.BYTES
    cast_folding: CastFolding = CastFolding.EXACT
    fallback: Format | None = None

    def __post_init__(self) -> None:
        if (self.format is None) != (self.scope is Scope.NONE):
            raise InputError(
                f"scope {self.scope.value} with format {self.format}: "
                "a format is wanted exactly when something is narrowed"
            )
        if self.fallback is not None and self.scope not in (Scope.ALL, Scope.MATMULT):
            raise InputError(
                f"scope {self.scope.value} with dtype mixed: scope all or matmult is wanted"
            )
        if not self.inline_cast and self.io_types.changes:
            raise InputError(
                "--io-types together with --disable-inline-cast: the one declares graph inputs "
                "narrow, the other keeps the Cast behind them; drop one"
            )

    @property
    def token(self) -> str:
        """The canonical token of scope and formats."""
        return canonical_token(self.scope, self.format, self.fallback)

    @property
    def formats(self) -> list[Format]:
        """The formats that values may be rounded to, each once; float32 is none of them."""
        wanted = (self.format, self.fallback, self.io_types.rest, *self.io_types.named.values())
        found = (each for each in wanted if each is not None and each != FLOAT32)
        return list(dict.fromkeys(found))

    @property
    def dtypes(self) -> set[ir.DataType]:
        """The element types that Casts of the result may have to take."""
        wanted = (*self.formats, self.io_types.rest, *self.io_types.named.values())
        return {each.dtype for each in wanted if each is not None and each.dtype is not None}

    @property
    def narrowest(self) -> Format:
        """The format with the fewest significant bits that values may be rounded to."""
        return min((*self.formats, FLOAT32), key=lambda format_: format_.significand)

    @property
    def is_float32r(self) -> bool:
        """Whether values are marked as float32r, of any width, instead of cast."""
        return self.format is not None and self.format.dtype is None

    def falling_back(self) -> "Policy | None":
        """What is asked for of nodes whose values leave the range of the format."""
        if self.fallback is None:
            return None
        return dataclasses.replace(self, format=self.fallback, fallback=None)


class _Options(TypedDict):
    selection: Selection
    functions: Functions
    matmul_output: MatmulOutput
    inline_cast: bool
    clamp_masks: bool
    io_types: IoTypes
    exact_bridges: bool
    keep_illegal_casts: bool
    exact_chains: bool
    minimise: Minimise
    cast_folding: CastFolding


def make_policy(  # noqa: PLR0913 - one keyword per option, as on the command line
    *,
    fp32_cast: str | None = None,
    scope: str | None = None,
    dtype: str | None = None,
    preferred: Format | None = None,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
    narrow_ops: Iterable[str] = (),
    narrow_nodes: Iterable[str] = (),
    op_block_list: Iterable[str] | None = None,
    node_block_list: Iterable[str] | None = None,
    policy: Chooser | None = None,
    functions: str = "specialise",
    matmul_output: str = "narrow",
    inline_cast: bool = True,
    clamp_masks: bool = False,
    fp32r_bits: int = FLOAT32R_BITS,
    io_types: str | Mapping[str, str] = "keep",
    keep_io_types: bool | Iterable[str] | None = None,
    cast_bridges: str = "native",
    illegal_casts: str = "refuse",
    require_exact_chains: bool = False,
    minimise: str = "bytes",
    cast_folding: str = "exact",
) -> Policy:
    """Resolve a token, or a scope and a dtype, to a policy.

    Without any of them the scope is ``all``. A scope without a dtype takes `preferred`, the
    target's format, else float16; only the bare tokens ``all``, ``matmult`` and ``inputs`` mean
    bfloat16. The arguments are those of `onnxcast.optimize`.

    Raises:
        InputError: An unknown token, scope, dtype, format or mode (the known ones are listed), a
            token together with a scope or dtype, or patterns that are no list.
    """
    if fp32_cast is not None and (scope is not None or dtype is not None):
        raise InputError(
            f"token {fp32_cast!r} together with a scope or dtype: give the token or the other two"
        )
    chosen, format_, fallback = _narrow(fp32_cast, scope, dtype, preferred)
    if format_ is not None and format_.dtype is None:
        format_ = _float32r(fp32r_bits)
    elif fp32r_bits != FLOAT32R_BITS:
        raise InputError(f"fp32r bits {fp32r_bits} without fp32r: give a token such as all-fp32r")
    options: _Options = {
        "selection": Selection.of(
            keep_ops=_either("keep_ops", keep_ops, "op_block_list", op_block_list),
            keep_nodes=_either("keep_nodes", keep_nodes, "node_block_list", node_block_list),
            narrow_ops=narrow_ops,
            narrow_nodes=narrow_nodes,
            choose=policy,
        ),
        "functions": _known("functions", functions, _members(Functions)),
        "matmul_output": _known("matmul output", matmul_output, _members(MatmulOutput)),
        "inline_cast": inline_cast,
        "clamp_masks": clamp_masks,
        "io_types": _io_types(io_types, keep_io_types, format_),
        "exact_bridges": _known("cast bridges", cast_bridges, {"native": False, "exact": True}),
        "keep_illegal_casts": _known(
            "illegal casts", illegal_casts, {"refuse": False, "keep": True}
        ),
        "exact_chains": require_exact_chains,
        "minimise": _known("minimise", minimise, _members(Minimise)),
        "cast_folding": _known("cast folding", cast_folding, _members(CastFolding)),
    }
    return Policy(scope=chosen, format=format_, fallback=fallback, **options)


def _either(
    ours: str, given: Iterable[str], theirs: str, same: Iterable[str] | None
) -> Iterable[str]:
    """The value of an option that other tools call by another name."""
    if same is None:
        return given
    if given:
        raise InputError(f"{ours} together with {theirs}: they are the same, give one")
    return same


def _io_types(
    given: str | Mapping[str, str], kept: bool | Iterable[str] | None, narrow: Format | None
) -> IoTypes:
    """What is asked for, in our words or in other tools': all are kept, none, or some by name."""
    if kept is None:
        return parse_io_types(given, narrow, DTYPES)
    if given != "keep":
        raise InputError("io_types together with keep_io_types: they say the same, give one")
    if isinstance(kept, bool):
        return parse_io_types("keep" if kept else "narrow", narrow, DTYPES)
    if isinstance(kept, str) or not isinstance(kept, Iterable):
        raise InputError(f"keep_io_types {kept!r}: True, False or a list of names is wanted")
    rest = parse_io_types("narrow", narrow, DTYPES).rest
    return IoTypes(rest, dict.fromkeys(kept, FLOAT32))


def _narrow(
    token: str | None, scope: str | None, dtype: str | None, preferred: Format | None
) -> Meant:
    if token is not None:
        return _known("token", token, TOKENS)
    chosen = _known("scope", "all" if scope is None else scope, _members(Scope))
    if chosen is Scope.NONE:
        if dtype is not None:
            raise InputError(f"dtype {dtype!r} with scope none: nothing is narrowed; drop one")
        return Meant(chosen)
    if dtype is not None:
        return Meant(chosen, *_known("dtype", dtype, NARROWINGS))
    if preferred is not None and preferred not in DTYPES.values():
        raise InputError(
            f"the target prefers {preferred}, to which nothing can be narrowed: give a dtype of "
            f"{', '.join(DTYPES)}"
        )
    return Meant(chosen, preferred or FLOAT16)


def _float32r(bits: object) -> Format:
    if not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= 22:
        raise InputError(f"fp32r bits {bits!r}: 1 to 22 explicit significand bits are wanted")
    return float32r(bits)


def _members(modes: "type[_Mode]") -> "dict[str, _Mode]":
    return {member.value: member for member in modes}


_Mode = TypeVar("_Mode", bound=enum.Enum)


def _known(kind: str, name: object, table: dict[str, _T]) -> _T:
    if not isinstance(name, str) or name not in table:
        near = difflib.get_close_matches(str(name), table, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"unknown {kind} {name!r}: known are {', '.join(table)}{hint}")
    return table[name]
