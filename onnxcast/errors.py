"""What can go wrong for a user, and nothing else.

Three kinds: the input or the options are wrong (`InputError`), the model cannot be made under
these options (`RefusedError`), or it was made and its outputs do not match (`VerificationError`).
A fault of our own is an `assert`, never one of these.
"""

__all__ = ["InputError", "OnnxcastError", "RefusedError", "VerificationError"]


class OnnxcastError(Exception):
    """Base of every error that onnxcast raises on purpose; its text is one line.

    The text says what was found, what was wanted and what to do.
    """

    exit_code = 1


class InputError(OnnxcastError):
    """Bad usage, or an input that cannot be read or is not valid."""

    exit_code = 2


class RefusedError(OnnxcastError):
    """The input is valid, but no model can be made from it under these options."""


class VerificationError(OnnxcastError):
    """A model was made and its outputs do not match the source's."""
