"""Where results go: everything that can be told before the work about the files to write."""

__all__ = ["check_destinations", "check_report", "format_name"]

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxcast.errors import InputError

from .pages import BEGINS

_SAMPLE_SUFFIXES = (".npz", ".pb")
_REPORT_SUFFIXES = (".html", ".htm", ".json")
_REPORT_BEGINS = (b'{\n  "versions": ', BEGINS)


def format_name(narrowing: Mapping[str, Any], target: str | None, plan: Path | None) -> str:
    """The narrow format by name, to call a file after.

    Raises:
        InputError: A bad option, target or plan.
    """
    import onnxcast
    from onnxcast.lock import read_lock
    from onnxcast.targets import get_target

    if plan is not None:
        narrowing = {"fp32_cast": read_lock(plan).report["token"]}
    policy = onnxcast.make_policy(preferred=get_target(target).preferred, **narrowing)
    if policy.fallback is not None:
        return "mixed"
    return policy.format.name if policy.format else "none"


def check_destinations(
    model: Path,
    output: Path,
    reports: Sequence[Path],
    samples: Path | None,
    plan: Path | None = None,
    *,
    force: bool,
) -> None:
    """Check that model and reports can be written, and over nothing that this run reads.

    Args:
        model: The source.
        output: The `.onnx` to write.
        reports: The reports to write.
        samples: A file or a folder of samples.
        plan: The report to take decisions from, which a report may replace.
        force: Whether `output` may be `model`.

    Raises:
        InputError: One of them cannot be written, or would replace what must stay.
    """
    from onnxcast.files import check_output

    if model.exists():  # else that is the fault to tell
        check_output(output, model, force=force)
    _check_no_sample(output, samples)
    if plan is not None and output.resolve() == plan.resolve():
        raise InputError(f"{output}: is the plan; name another file")
    if len({report.resolve() for report in reports}) < len(reports):
        raise InputError("two reports go to the same file; name each once")
    for report in reports:
        _check_no_sample(report, samples)
        if report.resolve() in (model.resolve(), output.resolve()):
            raise InputError(f"report {report}: is a model of this run; name another file")
        check_report(report)
        if report.suffix.lower() not in _REPORT_SUFFIXES:
            raise InputError(f"report {report}: a page or JSON; end its name in .html or .json")


def check_report(report: Path) -> None:
    """Check that a report can be written, and over nothing but a report.

    Raises:
        InputError: It cannot.
    """
    from onnxcast.files import is_special

    if report.is_dir() or not report.parent.is_dir():
        raise InputError(f"report {report}: a file in an existing folder is wanted; name one")
    if is_special(report):
        raise InputError(f"report {report}: not a regular file; name another file")
    if not os.access(report.parent, os.W_OK):
        raise InputError(
            f"report {report}: the folder {report.parent} is not writable; name another file"
        )
    _check_replaceable(report)


def _check_no_sample(path: Path, samples: Path | None) -> None:
    if samples is None:
        return
    place, source = path.resolve(), samples.resolve()
    inside = source in place.parents and place.suffix in _SAMPLE_SUFFIXES
    if place == source or inside:
        raise InputError(f"{path}: is where the samples are; name another file")


def _check_replaceable(report: Path) -> None:
    """Let a report replace a report: what else is there may be weights, samples, anything."""
    if not report.exists():
        return
    try:
        with report.open("rb") as file:
            begin = file.read(max(map(len, _REPORT_BEGINS)))
    except OSError as error:
        raise InputError(
            f"report {report}: cannot be read ({error.strerror}); name another file"
        ) from None
    if begin and not begin.startswith(_REPORT_BEGINS):
        raise InputError(
            f"report {report}: there, and no report of onnxcast; remove it or name another file"
        )
