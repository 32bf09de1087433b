"""Whether the weights of a result are in its `.onnx` or beside it, and under which name."""

__all__ = ["check_data", "is_external", "layout"]

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from onnxcast.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def layout(command: _Command) -> _Command:
    """Add where the weights of the result go."""
    for option in reversed(
        (
            click.option(
                "--external-data", is_flag=True, help="Write large tensors to a file beside OUT."
            ),
            click.option(
                "--inline",
                is_flag=True,
                help="Write all tensors into OUT [default: as they are in the input].",
            ),
            click.option(
                "--location",
                metavar="NAME",
                help="The name of that file; one that is there needs --force, and is lost even if "
                "the run fails after it [default: OUT's name with the hash of the content].",
            ),
        )
    ):
        command = option(command)
    return command


def is_external(*, external_data: bool, inline: bool, location: str | None) -> bool | None:
    """Whether tensors are to be external; None if the input decides.

    Raises:
        InputError: Two of the options contradict each other.
    """
    if inline and (external_data or location is not None):
        raise InputError("--inline together with --external-data or --location: drop one or other")
    return True if external_data or location is not None else (False if inline else None)


def check_data(output: Path, location: str | None, *, external: bool | None, force: bool) -> None:
    """Check that the data of `output` can go where it is asked for.

    Raises:
        InputError: It cannot.
    """
    from onnxcast.files import check_location

    if location is not None:
        check_location(location, output, external=external, force=force)
