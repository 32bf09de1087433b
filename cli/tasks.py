"""What a run converts: one model, or several with folders for what belongs to each."""

__all__ = ["Task", "check_tasks", "make_tasks"]

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from onnxcast.errors import InputError

_SAMPLES = (".npz", ".json", "")


@dataclasses.dataclass(frozen=True)
class Task:
    """A model to convert.

    Attributes:
        model: The source.
        output: The `.onnx` to write.
        reports: The reports to write.
        inputs: Its samples, if there are any.
    """

    model: Path
    output: Path
    reports: tuple[Path, ...]
    inputs: Path | None


def make_tasks(
    models: Sequence[Path],
    output: Path | None,
    reports: Sequence[Path],
    inputs: Path | None,
    format_name: Callable[[], str],
) -> list[Task]:
    """Tell for each model what it is made into.

    Args:
        models: The sources.
        output: The `.onnx` to write; of several models, the folder to write them in.
        reports: The reports to write; of several models, folders for `MODEL.json`.
        inputs: The samples; of several models, a folder of `MODEL.npz`, `MODEL.json` or `MODEL/`.
        format_name: Tells what default outputs are called after.

    Raises:
        InputError: Of several models, one of these is no folder, or one lacks samples.
    """
    from onnxcast.files import default_output

    if len(models) == 1:
        chosen = output or default_output(models[0], format_name())
        return [Task(models[0], chosen, tuple(reports), inputs)]
    for option, folder in (
        ("-o", output),
        *(("--report", report) for report in reports),
        ("--inputs", inputs),
    ):
        if folder is not None and not folder.is_dir():
            raise InputError(
                f"{option} {folder}: a folder is wanted for {len(models)} models; name one that "
                "is there"
            )
    name, tasks = format_name(), []
    for model in models:
        default = default_output(model, name)
        tasks.append(
            Task(
                model,
                default if output is None else output / default.name,
                tuple(report / f"{model.stem}.json" for report in reports),
                None if inputs is None else _samples(inputs, model),
            )
        )
    return tasks


def check_tasks(tasks: Sequence[Task]) -> None:
    """Check that no file is written twice, or over what another task reads.

    Raises:
        InputError: One is.
    """
    _check_distinct([task.output for task in tasks])
    _check_not_read(tasks)
    _check_distinct([report for task in tasks for report in task.reports])


def _samples(folder: Path, model: Path) -> Path:
    paths = [folder / f"{model.stem}{suffix}" for suffix in _SAMPLES]
    found = next((path for path in paths if path.exists()), None)
    if found is None:
        raise InputError(
            f"--inputs {folder}: no samples for {model.name} in it; wanted {model.stem}.npz, "
            f"{model.stem}.json or a folder {model.stem}"
        )
    return found


def _check_not_read(tasks: Sequence[Task]) -> None:
    read = {task.model.resolve() for task in tasks}
    for task in tasks:
        if task.output.resolve() in read - {task.model.resolve()}:
            raise InputError(
                f"{task.output}: would be written for {task.model} and is read in this run too; "
                "convert them one by one"
            )


def _check_distinct(paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path}: would be written for two models; convert them one by one")
        seen.add(path.resolve())
