"""Every code that reports and messages name, with what it means: reasons, findings, errors."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Literal

from onnxcast import diagnostics, errors
from onnxcast.errors import InputError
from onnxcast.planning import reasons

__all__ = ["CodeText", "explain_code", "known_codes"]


@dataclasses.dataclass(frozen=True)
class CodeText:
    """What a code means.

    Attributes:
        code: How it is printed; for a finding also its name.
        kind: What it is the code of.
        short: In a sentence.
        long: At more length, with what can be done about it.
    """

    code: str
    kind: Literal["reason", "finding", "error"]
    short: str
    long: str


def known_codes() -> Mapping[str, CodeText]:
    """All codes by name; findings have two."""
    found = {
        reason.name: CodeText(reason.name, "reason", reason.value, text)
        for reason, text in reasons.EXPLAINED.items()
    }
    for code, text in diagnostics.EXPLAINED.items():
        words = code.name.replace("_", " ").capitalize()
        found[code.name] = found[code.value] = CodeText(
            f"{code.value} {code.name}", "finding", words, text
        )
    for error, text in errors.EXPLAINED.items():
        short = (error.__doc__ or "").partition("\n")[0].rstrip(".")
        found[error.__name__] = CodeText(error.__name__, "error", short, text)
    return found


def explain_code(code: str) -> CodeText:
    """What a code means, however its letters are written.

    Raises:
        InputError: There is no such code; the nearest are named.
    """
    known = {name.casefold(): text for name, text in known_codes().items()}
    asked = code.strip().casefold().replace("-", "_")
    if asked in known:
        return known[asked]
    near = difflib.get_close_matches(asked, known, n=3)
    hint = ", ".join(known[name].code for name in near) or "OC101, ACCUMULATING or InputError"
    raise InputError(f"code {code!r}: no reason, finding or error is called so; try {hint}")
