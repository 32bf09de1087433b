"""Folders that are gone in the end, however it comes."""

__all__ = ["TemporaryFolder"]

import tempfile


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that also goes if its removal is disturbed.

    The standard one stays behind, for good, if Ctrl-C or SIGTERM comes while it is removed, or if a
    process that was just ended writes into it.
    """

    def __init__(self) -> None:
        super().__init__(prefix="onnxcast-")

    def cleanup(self) -> None:
        """Remove the folder; if that is disturbed, remove the rest before the end."""
        try:
            super().cleanup()
        except OSError:
            super().cleanup()
        except BaseException:
            super().cleanup()
            raise
