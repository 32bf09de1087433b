"""A run of the zoo: which jobs there are, which are done, and what became of each."""

__all__ = ["EVERY_MODE", "SUITE", "Judged", "jobs_of", "judged", "left", "mode_of"]

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnxcast
from onnxcast.policy import TOKENS
from onnxcast.targets import get_target

from .expectations import Expectations
from .jobs import Job
from .judging import Verdict, judge
from .rows import Mode, Row
from .subjects import Subject

SUITE = (
    Mode("all-fp16"),
    Mode("all-bf16"),
    Mode("matmult-bf16"),
    Mode("all-fp8e4"),
    Mode("all-bf16", "ascend950"),
    Mode("all-bf16", "ascend910b"),
)
"""The modes of a run that names none."""

EVERY_MODE = tuple(
    Mode(token)
    for token in dict.fromkeys(onnxcast.make_policy(fp32_cast=token).token for token in TOKENS)
)
"""Each mode once, for any hardware."""


def mode_of(token: str, target: str | None = None) -> Mode:
    """A mode by any of its names, so that it has one name in results.

    Raises:
        InputError: There is no such token or target.
    """
    is_file = target is not None and Path(target).is_file()
    return Mode(
        onnxcast.make_policy(fp32_cast=token).token,
        get_target(target).name,
        str(Path(target).absolute()) if target is not None and is_file else "",
    )


@dataclasses.dataclass(frozen=True)
class Judged:
    """A row, and whether it is as expected.

    Attributes:
        row: What it is.
        verdict: How it compares.
        why: What is not as expected, or "".
    """

    row: Row
    verdict: Verdict
    why: str


def jobs_of(
    subjects: Sequence[Subject],
    modes: Sequence[Mode],
    out: Path | None,
    reports: Path | None = None,
) -> list[Job]:
    """Each model in each mode; the larger models first, so that no long one comes last."""
    by_size = sorted(subjects, key=lambda subject: (-_size(subject.model), subject.name))
    return [Job.of(subject, mode, out, reports) for subject in by_size for mode in modes]


def left(jobs: Sequence[Job], rows: Iterable[Row]) -> tuple[list[Job], list[Row]]:
    """The jobs that no row tells of yet, and the rows that tell of the others."""
    known = {(row.key, row.digest): row for row in rows}
    pairs = [(job, known.get((job.key, job.digest))) for job in jobs]
    return [job for job, row in pairs if row is None], [row for _, row in pairs if row is not None]


def judged(rows: Iterable[Row], expected: Expectations) -> list[Judged]:
    """Rows with their verdicts, by model and then by mode."""
    return [Judged(row, *judge(expected.of(row.key), row)) for row in sorted(rows, key=_order)]


def _order(row: Row) -> tuple[str, int, str]:
    return row.name, SUITE.index(row.mode) if row.mode in SUITE else len(SUITE), str(row.mode)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
