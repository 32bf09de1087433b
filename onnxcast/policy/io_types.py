"""The element types that graph inputs and outputs shall have: kept, narrow, or given by name."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT32, Format

__all__ = ["IoTypes", "parse_io_types"]


@dataclasses.dataclass(frozen=True)
class IoTypes:
    """What float32 graph inputs and outputs become.

    Attributes:
        rest: The format of those that are not named; None if they keep their type.
        named: The format of each that is named; FLOAT32 keeps the type.
    """

    rest: Format | None = None
    named: Mapping[str, Format] = dataclasses.field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether any type may change."""
        return self.rest is not None or any(each != FLOAT32 for each in self.named.values())

    def check(self, known: Mapping[str, Format | None]) -> None:
        """Let no name be in vain.

        Args:
            known: The formats of the graph inputs and outputs; None for what is no tensor.

        Raises:
            InputError: A name that is none of them (with the nearest), or that is not float32.
        """
        for name, format_ in self.named.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
                hint = f"; nearest: {', '.join(near)}" if near else ""
                raise InputError(f"io types: no graph input or output {name!r}{hint}")
            if known[name] not in (FLOAT32, format_):
                raise InputError(
                    f"io types: {name!r} is {known[name] or 'no tensor'}, and only float32 inputs "
                    "and outputs can change: leave it out"
                )

    def wanted(self, name: str) -> Format | None:
        """The format that a float32 graph input or output gets; None if it keeps its type."""
        format_ = self.named.get(name, self.rest)
        return None if format_ == FLOAT32 else format_


def parse_io_types(given: object, narrow: Format | None, formats: Mapping[str, Format]) -> IoTypes:
    """Read ``keep``, ``narrow`` or ``NAME=FORMAT,…``, or a dict from names to formats.

    A list may begin with ``narrow`` or ``keep`` for what it does not name: ``narrow,logits=fp32``.

    Args:
        given: What the user said.
        narrow: What ``narrow`` stands for; None if nothing is narrowed.
        formats: The formats by the names that users know.

    Raises:
        InputError: Something else.
    """
    known = {"fp32": FLOAT32, "float32": FLOAT32}
    known.update((name, format_) for name, format_ in formats.items() if format_.dtype is not None)
    if isinstance(given, Mapping):
        items = [f"{name}={format_}" for name, format_ in given.items()]
    elif isinstance(given, str):
        items = [item.strip() for item in given.split(",")]
    else:
        raise _unknown(given, known)
    rest: Format | None = None
    named: dict[str, Format] = {}
    for index, item in enumerate(items):
        name, equals, format_name = item.rpartition("=")
        if index == 0 and item in ("keep", "narrow"):
            rest = _narrow(narrow) if item == "narrow" else None
        elif name and equals and format_name in known:
            named[name] = known[format_name]
        else:
            raise _unknown(item, known)
    return IoTypes(rest, named)


def _narrow(narrow: Format | None) -> Format:
    if narrow is None or narrow.dtype is None:
        raise InputError(
            f"io types narrow with format {narrow}: there is no narrow type to declare; name one"
        )
    return narrow


def _unknown(given: object, known: Iterable[str]) -> InputError:
    return InputError(
        f"io types {given!r}: keep, narrow or NAME=FORMAT is wanted, with a format of "
        f"{', '.join(known)}"
    )
