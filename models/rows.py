"""What one conversion gave, as a row that a later run can be compared with."""

__all__ = ["Mode", "Outcome", "Row"]

import dataclasses
import math
from typing import Any, Literal, NamedTuple, TypeAlias

Outcome: TypeAlias = Literal[
    "written", "refused", "differs", "invalid", "missing", "failed", "crashed"
]


class Mode(NamedTuple):
    """What is asked for.

    Attributes:
        token: As for ``--fp32-cast``.
        target: The name of the target.
        profile: The path of its profile, if it is none of those that have a name.
    """

    token: str
    target: str = "generic"
    profile: str = ""

    def __str__(self) -> str:
        return self.token if self.target == "generic" else f"{self.token}@{self.target}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What one conversion gave; figures are None where there is no result.

    Attributes:
        name: The model.
        token: The mode.
        target: The target.
        digest: Of the model and its samples.
        outcome: ``written``; ``refused``: no model can be made under these options; ``differs``: a
            model was made and does not match, be it on samples that it was not made on;
            ``invalid``: the model or a sample cannot be read or is not valid; ``missing``: the
            model cannot be had; ``failed``: a fault of onnxcast; ``crashed``: the process died or
            met a limit.
        cause: One line, "" if it was written.
        casts: Casts in the result.
        hops: Conversions that the target takes for them.
        cast_bytes: Bytes that these write: hops times bytes, summed over the Casts.
        bytes_before: Bytes of the source's tensors.
        bytes_after: Bytes of the result's tensors.
        narrow: Which share of the weights of matmul-like ops is stored narrow.
        narrow_bytes: Bytes of tensors that are stored in 16 bits or fewer.
        pins: How many nodes measured figures keep wide.
        worst_error: The worst figure of any output, relative to its largest value.
        held_out: The same on samples that it was not made on.
        labels: How many labels are right, before and after, and of how many.
        seconds: Wall-clock seconds.
        cpu: Seconds of processors, which tells more where they are shared.
        megabytes: The most memory that the process had.
    """

    name: str
    token: str
    target: str = "generic"
    digest: str = ""
    outcome: Outcome
    cause: str = ""
    casts: int | None = None
    hops: int | None = None
    cast_bytes: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    narrow: float | None = None
    narrow_bytes: int | None = None
    pins: int | None = None
    worst_error: float | None = None
    held_out: float | None = None
    labels: tuple[int, int, int] | None = None
    seconds: float = 0.0
    cpu: float | None = None
    megabytes: float | None = None

    @property
    def mode(self) -> Mode:
        """What was asked for."""
        return Mode(self.token, self.target)

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the row that it is, whatever it says."""
        return self.name, self.token, self.target

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; figures that are not finite are strings."""
        plain = {name: _plain(value) for name, value in dataclasses.asdict(self).items()}
        return {name: value for name, value in plain.items() if value is not None}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Row":
        """The row that `to_dict` tells.

        Raises:
            TypeError, ValueError: It is none.
        """
        values = dict(plain)
        for name in ("worst_error", "held_out"):
            if values.get(name) is not None:
                values[name] = float(values[name])
        if values.get("labels") is not None:
            before, after, total = values["labels"]
            values["labels"] = (before, after, total)
        return cls(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return list(value) if isinstance(value, tuple) else value
