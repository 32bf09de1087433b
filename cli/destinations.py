"""Where results go: everything that can be told before the work about the files to write."""

__all__ = ["check_destinations"]

import os
from pathlib import Path

from onnxcast.errors import InputError

_SAMPLE_SUFFIXES = (".npz", ".pb")
_REPORT_BEGINS = b'{\n  "versions": '


def check_destinations(
    model: Path,
    output: Path,
    report: Path | None,
    samples: Path | None,
    plan: Path | None = None,
    *,
    force: bool,
) -> None:
    """Check that model and report can be written, and over nothing that this run reads.

    Args:
        model: The source.
        output: The `.onnx` to write.
        report: The report to write.
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
    if report is not None:
        _check_report(report)
        _check_no_sample(report, samples)
        if report.resolve() in (model.resolve(), output.resolve()):
            raise InputError(f"report {report}: is a model of this run; name another file")
        _check_replaceable(report)


def _check_report(report: Path) -> None:
    from onnxcast.files import is_special

    if report.is_dir() or not report.parent.is_dir():
        raise InputError(f"report {report}: a file in an existing folder is wanted; name one")
    if is_special(report):
        raise InputError(f"report {report}: not a regular file; name another file")
    if not os.access(report.parent, os.W_OK):
        raise InputError(
            f"report {report}: the folder {report.parent} is not writable; name another file"
        )


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
            begin = file.read(len(_REPORT_BEGINS))
    except OSError as error:
        raise InputError(
            f"report {report}: cannot be read ({error.strerror}); name another file"
        ) from None
    if begin not in (b"", _REPORT_BEGINS):
        raise InputError(
            f"report {report}: there, and no report of onnxcast; remove it or name another file"
        )
