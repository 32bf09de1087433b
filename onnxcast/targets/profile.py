"""A target from a TOML file, for hardware that onnxcast does not know.

::

    name = "mychip"
    preferred = "bf16"
    [casts]                                   # in the order of preference; left out: has all
    fp32 = ["bf16", { to = "fp16", overflow = "saturates", rounding = "rounds to even" }]
    bf16 = ["fp32"]
    [[operands]]
    format = "fp32"
    wanted = "bf16"                           # left out: whatever is wanted
    gives = "bf16"                            # left out: refused
    [[pairs]]                                 # left out: two of one type
    first = "bf16"
    second = "bf16"
    accumulator = "fp32"

Besides: ``aliases``, ``advice`` (lists of texts), ``command`` (with {model} and {stem}), ``opsets``
(first and last), ``formats`` (all that it takes), ``one_domain`` (ONNX ops alone), ``refused_ops``
(a table of causes by op),
``float8e4`` (fp8e4m3, or fp8e4 with its limit of 240), and ``evidence`` in every row. ``overflow``
is saturates, wraps, gives infinity or unknown; ``rounding`` is rounds to even, rounds ties away,
truncates, rounds as told or unknown. Number formats have the short names (fp32, bf16, fp8e4m3) or
ONNX's in lower case.
"""

import os
import reprlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT32, Format
from onnxcast.targets.names import format_of
from onnxcast.targets.rows import NativeCast, Operand, Overflow, Pair, Rounding
from onnxcast.targets.target import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["read_profile"]

_T = TypeVar("_T")


def read_profile(path: str | os.PathLike[str]) -> Target:
    """Read a target from a TOML file.

    Raises:
        InputError: It cannot be read, or a key has not what is wanted; the text names file and key.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"target {path}: no TOML ({error}); repair it") from None
    except (OSError, ValueError) as error:  # a path that no system takes is the latter
        said = getattr(error, "strerror", None) or error
        raise InputError(f"target {path}: {said}; name a profile in TOML") from None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # some bad values are no TOMLDecodeError
        raise InputError(f"target {path}: no TOML ({error}); repair it") from None
    return _Reader(str(path)).target(table)


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path

    def target(self, table: Mapping[str, Any]) -> Target:
        fields: dict[str, Callable[[str, Any], Any]] = {
            "name": self._text,
            "aliases": lambda key, value: tuple(self._each(key, value, self._text)),
            "preferred": self._format,
            "casts": self._casts,
            "operands": lambda key, value: tuple(self._each(key, value, self._operand)),
            "pairs": lambda key, value: tuple(self._each(key, value, self._pair)),
            "opsets": self._opsets,
            "formats": lambda key, value: tuple(self._each(key, value, self._format)),
            "one_domain": self._truth,
            "refused_ops": self._refused,
            "float8e4": self._format,
            "command": self._text,
            "advice": lambda key, value: tuple(self._each(key, value, self._text)),
        }
        read = self._record("", table, fields, required=("name", "preferred"))
        return Target(**read)

    def _record(
        self,
        key: str,
        value: Any,
        fields: Mapping[str, Callable[[str, Any], Any]],
        required: tuple[str, ...],
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wanted(key, value, f"a table with {', '.join(fields)}")
        prefix = f"{key}." if key else ""
        for name in value:
            if name not in fields:
                raise self._wanted(
                    prefix + _shown(name), value[name], f"one of {', '.join(fields)}"
                )
        for name in required:
            if name not in value:
                raise InputError(f"target {self._path}: {prefix}{name} is missing; add it")
        return {name: fields[name](prefix + name, given) for name, given in value.items()}

    def _casts(self, key: str, value: Any) -> tuple[NativeCast, ...]:
        if not isinstance(value, dict):
            raise self._wanted(key, value, "a table of lists, by source")
        return tuple(
            self._cast(f"{key}.{_shown(name)}", source, target)
            for name, targets in value.items()
            for source in (self._format(f"{key}.{_shown(name)}", name),)
            for target in self._list(f"{key}.{_shown(name)}", targets)
        )

    def _cast(self, key: str, source: Format, value: Any) -> NativeCast:
        given = {"to": value} if isinstance(value, str) else value
        fields = {
            "to": self._format,
            "overflow": lambda key, value: self._member(key, value, Overflow),
            "rounding": lambda key, value: self._member(key, value, Rounding),
            "evidence": self._text,
        }
        read = self._record(key, given, fields, required=("to",))
        return NativeCast(source, read.pop("to"), **read)

    def _operand(self, key: str, value: Any) -> Operand:
        fields = {
            "format": self._format,
            "wanted": self._format,
            "gives": self._format,
            "evidence": self._text,
        }
        read = self._record(key, value, fields, required=("format",))
        return Operand(**{"wanted": None, "gives": None, **read})

    def _pair(self, key: str, value: Any) -> Pair:
        fields = {
            "first": self._format,
            "second": self._format,
            "accumulator": self._format,
            "evidence": self._text,
        }
        read = self._record(key, value, fields, required=("first", "second"))
        return Pair(**{"accumulator": FLOAT32, **read})

    def _refused(self, key: str, value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise self._wanted(key, value, "a table of causes by op")
        return tuple((op, self._text(f"{key}.{op}", cause)) for op, cause in value.items())

    def _opsets(self, key: str, value: Any) -> tuple[int, int]:
        whole = isinstance(value, list) and [type(each) for each in value] == [int, int]
        if not whole or not 1 <= value[0] <= value[1]:
            raise self._wanted(key, value, "the first and the last, such as [8, 18]")
        return value[0], value[1]

    def _format(self, key: str, value: Any) -> Format:
        name = self._text(key, value)
        try:
            return format_of(name)
        except InputError as error:
            raise InputError(f"target {self._path}: {key}: {error}") from None

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value or not value.isprintable():
            raise self._wanted(key, value, "a text on one line")
        return value

    def _truth(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._wanted(key, value, "true or false")
        return value

    def _member(self, key: str, value: Any, members: type[Overflow] | type[Rounding]) -> Any:
        known = [each.value for each in members]
        if value not in known:
            raise self._wanted(key, value, f"one of {', '.join(known)}")
        return members(value)

    def _each(self, key: str, value: Any, read: Callable[[str, Any], _T]) -> list[_T]:
        given = self._list(key, value)
        return [read(f"{key}[{index}]", each) for index, each in enumerate(given)]

    def _list(self, key: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self._wanted(key, value, "a list")
        return value

    def _wanted(self, key: str, value: Any, what: str) -> InputError:
        shown = reprlib.repr(value)  # however long or deep it is
        return InputError(f"target {self._path}: {key} is {shown}: {what} is wanted")


def _shown(key: str) -> str:
    return key if key.isprintable() else repr(key)
