"""``onnxcast optimize --check``: what there would be to do, for CI."""

__all__ = ["check_models"]

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxcast.errors import OnnxcastError

from .console import fail, print_json, results
from .tasks import Task

if TYPE_CHECKING:
    from onnxcast import Result

_SOMETHING_TO_DO = 1


def check_models(
    tasks: Sequence[Task], convert: Callable[[Task], "Result"], *, as_json: bool
) -> int:
    """Print what a conversion of each model would do; nothing is written.

    Args:
        tasks: The models.
        convert: Gives the result for one.
        as_json: Whether to print a list of records with the reports.

    Returns:
        The exit code: 0 if there is nothing to do; 1 if there is; that of the worst fault.
    """
    code, records = 0, []
    for task in tasks:
        try:
            result = convert(task)
        except OnnxcastError as error:
            if len(tasks) == 1:
                raise
            told = str(error)
            fail(told if told.startswith(f"{task.model}: ") else f"{task.model}: {told}")
            code = max(code, error.exit_code)
            continue
        code = max(code, _SOMETHING_TO_DO if result.modified else 0)
        if as_json:
            records.append(_record(task.model, result))
        else:
            results().print(f"{task.model}: {_told(result)}", soft_wrap=True)
    if as_json:
        print_json(records)
    return code


def _record(model: Path, result: "Result") -> dict[str, Any]:
    return {
        "model": str(model),
        "modified": result.modified,
        "report": result.report.to_dict(),
    }


def _told(result: "Result") -> str:
    from .summary import changes

    if not result.modified:
        return "nothing to do"
    told = changes(result.report) or "only names, or its record of what made it"
    return f"to be converted: {told}"
