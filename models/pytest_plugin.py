"""A pytest plugin: ``pytest --onnxcast-zoo DIR`` adds one test for each model of DIR and mode.

A test fails if its row is worse than what DIR/expected says, and where that says nothing, if no
model is written. The plugin is loaded with every pytest where onnxcast is installed, so it imports
what it needs when it is asked for something.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .expectations import Expectations
    from .jobs import Job
    from .rows import Mode
    from .subjects import Subject


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("onnxcast")
    group.addoption(
        "--onnxcast-zoo",
        metavar="DIR",
        help="convert and prove each model of DIR in each mode, a test each",
    )
    group.addoption(
        "--onnxcast-token",
        action="append",
        default=[],
        metavar="TOKEN[@TARGET]",
        help="a mode (repeatable) [default: those of onnxcast zoo run]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the folder beside whatever else is collected."""
    folder = config.getoption("--onnxcast-zoo")
    if folder is None:
        return
    from onnxcast import InputError

    from .subjects import find_subjects

    try:
        subjects = find_subjects(Path(folder).absolute())
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(_Zoo(subjects), "onnxcast-zoo-folder")
    config.args.append(folder)


class _Zoo:
    """The hooks of a run that has a folder."""

    def __init__(self, subjects: "list[Subject]") -> None:
        self._subjects = {subject.model: subject for subject in subjects}

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> "_Model | None":
        """A model of the folder."""
        subject = self._subjects.get(file_path)
        if subject is None:
            return None
        model: _Model = _Model.from_parent(parent, path=file_path)
        model.subject = subject
        return model


class _Model(pytest.File):
    """A model: a test for each mode."""

    subject: "Subject"

    def collect(self) -> Iterator["_Conversion"]:
        from .expectations import Expectations
        from .jobs import Job
        from .suite import SUITE

        modes = [_mode(text) for text in self.config.getoption("--onnxcast-token")] or SUITE
        expected = Expectations(self.path.parent / "expected")
        for mode in modes:
            test: _Conversion = _Conversion.from_parent(self, name=str(mode))
            test.job, test.expected = Job.of(self.subject, mode, None), expected
            yield test


def _mode(text: str) -> "Mode":
    from onnxcast import InputError

    from .suite import mode_of

    token, _, target = text.partition("@")
    try:
        return mode_of(token, target or None)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None


class _Conversion(pytest.Item):
    """One job."""

    job: "Job"
    expected: "Expectations"

    def runtest(self) -> None:
        from .jobs import Limits, run_job
        from .judging import judge

        row = run_job(self.job, Limits())
        verdict, why = judge(self.expected.of(row.key), row)
        if verdict == "worse":
            raise _WorseError(why)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, _WorseError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.job.name} {self.name}"


class _WorseError(Exception):
    """The row is worse than what is expected."""
