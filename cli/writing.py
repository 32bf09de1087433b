"""Models and reports, written together: what can fail has failed before the first is in place."""

__all__ = ["write_results"]

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import DownloadColumn

from onnxcast.errors import RefusedError

from .console import bar
from .pages import model_page
from .tasks import Task

if TYPE_CHECKING:
    from onnxcast import Result


def write_results(
    results: Mapping[Task, "Result"], *, force: bool, external: bool | None, location: str | None
) -> list[Path]:
    """Write models and reports, and put them in place once all are whole; return the files.

    Args:
        results: By what was to be done.
        force: As for `onnxcast.save_together`.
        external: The same.
        location: The same.

    Raises:
        InputError: A model cannot be written there.
        RefusedError: A model or a report cannot be written.
    """
    import onnxcast
    from onnxcast.files.atomic import open_beside, settle

    reports = {report: result for task, result in results.items() for report in task.reports}
    outputs: dict[Path, Result] = {task.output: result for task, result in results.items()}
    what = "write " + ", ".join(output.name for output in outputs)
    report: Path | None = None
    try:
        with ExitStack() as undo, bar(DownloadColumn()) as show:
            waiting = {}
            for report, result in reports.items():
                waiting[report] = open_beside(report, undo)
                waiting[report].write(_text(result, report).encode())
            report = None
            files = onnxcast.save_together(
                outputs,
                force=force,
                external=external,
                location=location,
                progress=lambda done, total: show(done, total, what),
            )
            for report, file in waiting.items():
                settle(file, report)
            undo.pop_all()
    except OSError as error:
        if report is None:
            raise
        raise RefusedError(
            f"report {report}: cannot be written ({error.strerror}); name another file"
        ) from None
    return [*files, *reports]


def _text(result: "Result", report: Path) -> str:
    """The report as a page or as JSON, by the name of its file."""
    if report.suffix.lower() in (".html", ".htm"):
        return model_page(result.report.to_dict())
    return result.report.to_json()
