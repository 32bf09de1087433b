"""Where a model may be written to: everything that can be told before any work is done."""

__all__ = ["check_location", "check_not_special", "check_output", "default_output"]

import os
from pathlib import Path

from onnxcast.errors import InputError
from onnxcast.files.kinds import is_special


def default_output(path: Path, format_name: str) -> Path:
    """Return `model.<format>.onnx` beside `model.onnx`."""
    return path.with_name(f"{path.stem}.{format_name}.onnx")


def check_output(output: Path, source: Path | None, *, force: bool) -> None:
    """Check, before any work is done, that `output` can be written.

    A file that exists is no fault: it is replaced in one step.

    Args:
        output: The `.onnx` to write.
        source: The file the model came from, if any.
        force: Whether `output` may be the source itself.

    Raises:
        InputError: The output is the source, a directory or no regular file, or its folder is not
            there or not writable.
    """
    folder = output.parent
    check_not_special(output)
    if output.is_dir():
        raise InputError(f"{output}: a directory; wanted the .onnx file to write; name a file")
    if not folder.is_dir():
        raise InputError(f"{output}: no folder {folder}; wanted one to write in; make it first")
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"{output}: the folder {folder} is not writable; wanted one to write in; choose another"
        )
    if source is not None and not force and _is_same(output, source):
        raise InputError(
            f"{output}: is the input itself; wanted another file; name another output, or allow it"
            " by --force (force=True)"
        )


def check_location(location: str, output: Path, *, external: bool | None, force: bool) -> None:
    """Check, before any work is done, that the data of `output` can go to a file named `location`.

    Args:
        location: The name.
        output: The `.onnx` beside it.
        external: Whether data is external at all.
        force: Whether a file that is there may be replaced.

    Raises:
        InputError: It is no name of a file, or the `.onnx`, or there already.
    """
    path = output.parent / location
    if external is False:
        raise InputError(f"location {location!r}: there is none for inline data; drop one or other")
    if Path(location).name != location or "\0" in location or "\\" in location:
        raise InputError(
            f"location {location!r}: the name of a file beside {output.name} is wanted; give one "
            "without a folder"
        )
    if location == output.name or path.is_dir() or is_special(path):
        raise InputError(f"location {location!r}: not a file to write data to; name another")
    if path.exists() and not force:
        raise InputError(
            f"{path}: is there, and data and model cannot be replaced in one step; name a new "
            "file, or give up that step by --force (force=True)"
        )


def check_not_special(output: Path) -> None:
    """Refuse an output that is a pipe, a socket or a device.

    Raises:
        InputError: It is.
    """
    if is_special(output):
        raise InputError(
            f"{output}: not a regular file, but a pipe, socket or device; wanted the .onnx file to "
            "write; name another output"
        )


def _is_same(output: Path, source: Path) -> bool:
    if output.exists() and source.exists():
        return output.samefile(source)
    return output.resolve() == source.resolve()
