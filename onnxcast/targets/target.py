"""What a target is: tables of what it converts, multiplies and accepts."""

import dataclasses
import functools
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxcast.errors import RefusedError
from onnxcast.formats import FLOAT8E4M3FN, FLOAT32, Format, contains, join
from onnxcast.targets.rows import NativeCast, Operand, Pair

__all__ = ["Target"]

_TOLD = ("command", "advice")
"""Fields that decide nothing about a model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Tables of one target, with evidence per row.

    Where a table is left out nothing is known: the target then takes any conversion and any operand
    type that is asked for, as long as both operands have the same.

    Attributes:
        name: As the user names it.
        aliases: Other names of it.
        preferred: The narrow format used when the user names none.
        casts: Conversions in the order of the target's own table, which decides between chains that
            are otherwise alike; None if it has all.
        operands: What becomes of a matmul operand, by format and what is wanted; the first row that
            fits counts.
        pairs: The operand formats that it multiplies.
        opsets: The first and the last ONNX opset that it takes; None for all.
        formats: The element types that it takes; None for all.
        one_domain: Whether it takes ops of the ONNX domain only.
        refused_ops: ONNX ops that it does not take, with the cause.
        float8e4: What its 8-bit float with 4 exponent bits holds: float8e4m3fn up to 448, or the
            legacy float8e4 up to 240, whose values beyond the limit are clipped before the Cast.
        command: What takes a result on to its runtime, with ``{model}`` for the file and ``{stem}``
            for its path without the suffix; "" if there is no such command.
        advice: What its user has to do with a result and why, one sentence each.
    """

    name: str
    aliases: tuple[str, ...] = ()
    preferred: Format
    casts: tuple[NativeCast, ...] | None = None
    operands: tuple[Operand, ...] = ()
    pairs: tuple[Pair, ...] = ()
    opsets: tuple[int, int] | None = None
    formats: tuple[Format, ...] | None = None
    one_domain: bool = False
    refused_ops: tuple[tuple[str, str], ...] = ()
    float8e4: Format = FLOAT8E4M3FN
    command: str = ""
    advice: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(Target):
            value = getattr(self, field.name)
            if isinstance(value, list):  # which has no hash
                object.__setattr__(self, field.name, tuple(value))

    @property
    def architecture(self) -> str:
        """How messages name it: with its first other name, if it has one."""
        return f"{self.name} ({self.aliases[0]})" if self.aliases else self.name

    def next_command(self, model: str | os.PathLike[str]) -> str:
        """The command that takes the result `model` on, for a shell; "" if there is none."""
        path = Path(model)
        names = {"{model}": path, "{stem}": path.with_suffix("")}
        told = self.command
        for place, name in names.items():
            told = told.replace(place, shlex.quote(str(name)))
        return told

    @property
    def digest(self) -> str:
        """A hash of what the tables say, without the evidence and what is told: 16 hex digits."""
        names = (each.name for each in dataclasses.fields(Target) if each.name not in _TOLD)
        fields = {name: _plain(getattr(self, name)) for name in names}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    def offers(self, format_: Format) -> bool:
        """Whether values can be narrowed to `format_` for the target, in whatever width."""
        if self.formats is not None:
            return any(_is(format_, each) for each in self.formats)
        given = [row.gives for row in self.operands if row.format == FLOAT32]
        asked = self.realised(format_)
        return not given or any(each is not None and _is(asked, each) for each in given)

    def is_native(self, source: Format, target: Format) -> bool:
        """Whether one conversion of the target leads from `source` to `target`."""
        return self.casts is None or (source, target) in self._casts

    def native_cast(self, source: Format, target: Format) -> NativeCast | None:
        """The row of a conversion; None if the target lacks it, or has no table."""
        return self._casts.get((source, target))

    @functools.cached_property
    def _casts(self) -> Mapping[tuple[Format, Format], NativeCast]:
        return {(row.source, row.target): row for row in self.casts or ()}

    @property
    def converted(self) -> list[Format]:
        """Every format that the table of conversions names, in its order."""
        named = (each for row in self.casts or () for each in (row.source, row.target))
        return list(dict.fromkeys(named))

    def realised(self, format_: Format) -> Format:
        """The format that the target has for the one asked for."""
        return self.float8e4 if format_ == FLOAT8E4M3FN else format_

    def matmul_operand_type(self, format_: Format, wanted: Format) -> Format:
        """Type that a matmul operand of `format_` must have when `wanted` is asked for.

        With `matmul_operand_pair` the only source of this policy (seed:
        ``target.getMatmultOperandType``).

        Raises:
            RefusedError: The target's matmul takes such an operand in no form.
        """
        if not self.operands:
            return wanted if contains(format_, wanted) else format_
        asked = self.realised(wanted)
        for row in self.operands:
            if _is(format_, row.format) and (row.wanted is None or _is(asked, row.wanted)):
                if row.gives is None:
                    break
                alike = (each for each in (asked, format_) if _is(each, row.gives))
                return next(alike, row.gives)
        raise RefusedError(
            f"{self.architecture}: its matmul takes no {format_} operand where {wanted} is wanted"
        )

    def matmul_operand_pair(self, first: Format, second: Format) -> tuple[Format, Format]:
        """Make the types of both operands legal together, by the least that contain them.

        Raises:
            RefusedError: The target multiplies no two types that contain them.
        """
        if not self.pairs:
            common = first if first == second else join(first, second) or FLOAT32
            return common, common
        if any(_is(first, row.first) and _is(second, row.second) for row in self.pairs):
            return first, second
        wider = [
            (_widened(first, row.first, second), _widened(second, row.second, first))
            for row in self.pairs
        ]
        legal = [(one, other) for one, other in wider if one is not None and other is not None]
        if not legal:
            raise RefusedError(
                f"{self.architecture}: its matmul takes no {first} with {second}, nor wider types"
            )

        def cost(pair: tuple[Format, Format]) -> tuple[int, int, int]:
            changed = (pair[0] != first) + (pair[1] != second)
            return pair[0].bits + pair[1].bits, changed, sum(each.significand for each in pair)

        return min(legal, key=cost)


def _plain(value: Any) -> Any:
    """`value` of a field as lists and texts, formats by their names."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, NativeCast | Operand | Pair):
        fields = (each.name for each in dataclasses.fields(value) if each.name != "evidence")
        return [_plain(getattr(value, name)) for name in fields]
    return value if isinstance(value, bool | int | None) else str(value)


def _is_float32r(format_: Format) -> bool:
    return format_.dtype is None and format_.bits == FLOAT32.bits


def _is(format_: Format, row: Format) -> bool:
    """Whether a row for `row` is for `format_`: a row for float32r is for all widths of it."""
    return format_ == row or (_is_float32r(format_) and _is_float32r(row))


def _widened(format_: Format, row: Format, other: Format) -> Format | None:
    """What an operand of `format_` becomes under `row`, beside an operand of `other`.

    None if `row` does not hold all its values. Nothing becomes float32r but beside a float32r.
    """
    if _is(format_, row):
        return format_
    if _is_float32r(row):
        row = other if _is_float32r(other) else format_
    return row if contains(row, format_) and row != format_ else None
