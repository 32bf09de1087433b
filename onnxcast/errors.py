"""What can go wrong for a user, and nothing else.

Three kinds: the input or the options are wrong (`InputError`), the model cannot be made under
these options (`RefusedError`), or it was made and its outputs do not match (`VerificationError`).
A fault of our own is an `assert`, never one of these.
"""

from collections.abc import Mapping

__all__ = ["EXPLAINED", "InputError", "OnnxcastError", "RefusedError", "VerificationError"]


class OnnxcastError(Exception):
    """Base of every error that onnxcast raises on purpose; its text is one line.

    The text says what was found, what was wanted and what to do. Where a name in it holds what no
    line may, such as the end of one, there is an escape.
    """

    exit_code = 1

    def __init__(self, text: str) -> None:
        super().__init__(
            "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
        )


class InputError(OnnxcastError):
    """Bad usage, or an input that cannot be read or is not valid."""

    exit_code = 2


class RefusedError(OnnxcastError):
    """The input is valid, but no model can be made from it under these options."""


class VerificationError(OnnxcastError):
    """A model was made and its outputs do not match the source's."""


EXPLAINED: Mapping[type[OnnxcastError], str] = {
    OnnxcastError: (
        "Its text is one line that says what was found, what was wanted and what to do. The "
        "command ends with its exit code, and nothing is written."
    ),
    InputError: (
        "Exit code 2. A file, a model, a sample, an option or a target's profile is wrong; no run "
        "with other data would help."
    ),
    RefusedError: (
        "Exit code 1. The target lacks a Cast or an op, the opset cannot be raised, the source "
        "does not run on the samples, or a file cannot be written. Other options may do."
    ),
    VerificationError: (
        "Exit code 1. An output is further off than passes, even with all that the search may "
        "keep wide. The text names the worst output and the first node that diverges; keep that "
        "node or its op wide, or raise --tolerance."
    ),
}
"""What each error means at more length."""
