"""The report of a run as a lock file: its decisions, made again without looking for them."""

import dataclasses
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.planning import Plan, pin_of
from onnxcast.search import Pins
from onnxcast.verification.budgets import Tolerance

__all__ = ["Lock", "asked", "passes_asked", "read_lock"]

_logger = logging.getLogger(__name__)

_PARTS: Mapping[str, type] = {
    "request": Mapping,
    "token": str,
    "target": str,
    "target_hash": str,
    "opset": Mapping,
    "groups": list,
    "pins": list,
}

_GROUP = ("node", "op", "variable", "format", "form")

_PIN = ("node", "figure")


def asked(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for other than by default, as plain lists, dicts and strings.

    A function cannot be written down: that there was one is.
    """
    given = {name: value for name, value in options.items() if value != defaults[name]}
    return {name: _plain(value) for name, value in given.items()}


def passes_asked(passes: Mapping[str, Any]) -> dict[str, Any]:
    """What passes, as plain numbers and strings; without what is as by default."""
    found = {name: value for name, value in passes.items() if value is not None}
    tolerance = found.get("tolerance")
    if isinstance(tolerance, Tolerance):
        found["tolerance"] = dataclasses.asdict(tolerance)
    return found


def _plain(value: Any) -> Any:
    if callable(value):
        return "a function"
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


@dataclasses.dataclass(frozen=True)
class Lock:
    """A report that decisions are taken from.

    Attributes:
        name: What it is called in messages.
        report: The report, as plain lists, dicts, strings and numbers.
    """

    name: str
    report: Mapping[str, Any]

    @property
    def request(self) -> Mapping[str, Any]:
        """What the run was asked for."""
        found: Mapping[str, Any] = self.report["request"]
        return found

    @property
    def target(self) -> str:
        """The name of the target."""
        return str(self.report["target"])

    @property
    def passes(self) -> dict[str, Any]:
        """What passes: ``max_error``, ``metric`` and ``tolerance``."""
        found = {**dict.fromkeys(("max_error", "metric", "tolerance")), **self.request["passes"]}
        if isinstance(found["tolerance"], Mapping):
            found["tolerance"] = Tolerance(**found["tolerance"])
        return found

    def options(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """What to narrow and how: what the report's run was asked for.

        Args:
            given: What is asked for now, by the same names.
            defaults: What is asked for by default.

        Raises:
            InputError: Something else is asked for than then.
        """
        then = {name: value for name, value in self.request["options"].items() if name in defaults}
        now = asked(given, defaults)
        if "policy" in then and "policy" not in now:
            raise InputError(
                f"plan {self.name}: it was made with a function as policy, which no file can hold; "
                "give the same one"
            )
        other = next((name for name, value in now.items() if then.get(name) != value), None)
        if other is not None:
            raise InputError(
                f"{other} {now[other]!r} together with plan {self.name}, which was made with "
                f"{then.get(other, defaults[other])!r}; drop one or the other"
            )
        return {**defaults, **then, "policy": given["policy"]}

    def check_target(self, name: str, digest: str) -> None:
        """Refuse a target other than the report's.

        Raises:
            InputError: It is another, or its tables have changed.
        """
        found = name, digest
        wanted = self.target, self.report["target_hash"]
        if found != wanted:
            raise InputError(
                f"plan {self.name}: made for target {wanted[0]} ({wanted[1]}), not for "
                f"{name} ({digest}); make a new plan"
            )

    def check_opset(self, opset: int | None) -> None:
        """Refuse a model that came to another opset.

        Raises:
            InputError: It did.
        """
        wanted = self.report["opset"]["after"]
        if opset != wanted:
            raise InputError(
                f"plan {self.name}: made at opset {wanted}, this model comes to {opset}; make a "
                "new plan"
            )

    def pins(self, plan: Plan) -> Pins:
        """The pins of the report, for a model with this plan.

        Raises:
            InputError: A node of the report is gone from the model.
        """
        nodes = plan.named_nodes()
        known = Counter(name for name, _ in nodes)
        told = dict.fromkeys((str(row["node"]), str(row["op"])) for row in self.report["groups"])
        gone = [f"{name} ({op})" for name, op in told if name not in known]
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            raise InputError(
                f"plan {self.name}: gone from the model: node {gone[0]}{more}; make a new plan"
            )
        figures = self._figures(self.report["pins"], nodes)
        return {node: pin_of(figure) for node, figure in figures.items()}

    def fallbacks(self, plan: Plan) -> dict[ir.Node, str]:
        """The nodes that fall back to another format in the report, with the figure.

        Raises:
            InputError: A node of the report is gone from the model.
        """
        return self._figures(self.report.get("fallbacks", ()), plan.named_nodes())

    def _figures(
        self, rows: Iterable[Mapping[str, Any]], nodes: Mapping[tuple[str, int], ir.Node]
    ) -> dict[ir.Node, str]:
        """The figures of `rows` by node."""
        found = {}
        for row in rows:
            place = str(row["node"]), int(row.get("occurrence", 0))
            if place not in nodes:
                raise InputError(
                    f"plan {self.name}: node {place[0]}, number {place[1] + 1} of that name, is "
                    "gone from the model; make a new plan"
                )
            found[nodes[place]] = str(row["figure"])
        return found

    def tell_changes(self, plan: Plan) -> None:
        """Warn of groups that are decided otherwise than in the report, as constants differ."""
        then = Counter(map(_decision, self.report["groups"]))
        rows = plan.rows()
        changed = list((Counter(map(_decision, rows)) - then).elements())
        if changed:
            node, _, format_, form = changed[0]
            because = next(row["because"] for row in rows if _decision(row) == changed[0])
            more = f" ({len(changed)} groups are so)" if len(changed) > 1 else ""
            _logger.warning(
                "plan %s: node %s is decided otherwise, %s %s: %s%s",
                *(self.name, node, format_, form, because, more),
            )


def read_lock(given: str | os.PathLike[str] | Mapping[str, Any]) -> Lock:
    """The report to take decisions from.

    Args:
        given: A report file, or what `Report.to_dict` gave.

    Raises:
        InputError: It cannot be read, or is no report.
    """
    if isinstance(given, Mapping):
        return _checked("in memory", given)
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"plan {given!r}: a report file or its content as a dict is wanted")
    try:
        content = json.loads(Path(given).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        cause = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(
            f"plan {given} cannot be read: {cause}; give a file that --report wrote"
        ) from None
    return _checked(str(given), content)


def _checked(name: str, content: object) -> Lock:
    fault = "it is no object"
    if isinstance(content, Mapping):
        fault = next(_faults(content), "")
        if not fault:
            return Lock(name, content)
    raise InputError(
        f"plan {name}: no report of onnxcast, {fault}; give a file that --report wrote"
    )


def _faults(content: Mapping[str, Any]) -> Iterator[str]:
    """What a report of onnxcast has and `content` has not; the first counts, in this order."""
    yield from (f"it has no {part!r}" for part in _PARTS if content.get(part) is None)
    for part, kind in _PARTS.items():
        if not isinstance(content[part], kind):
            yield f"its {part!r} is {content[part]!r}"
    request = content["request"]
    if not (_is_options(request.get("options")) and _is_passes(request.get("passes"))):
        yield "its 'request' does not say what was asked for"
    if "after" not in content["opset"]:
        yield "its 'opset' does not say what the result has"
    if not all(_is_row(row, _GROUP) for row in content["groups"]):
        yield "not all of its 'groups' are decisions"
    if not all(_is_row(row, _PIN) and _counts(row) for row in content["pins"]):
        yield "not all of its 'pins' are pins"


def _is_options(options: object) -> bool:
    return isinstance(options, Mapping) and all(isinstance(name, str) for name in options)


def _is_passes(passes: object) -> bool:
    if not _is_options(passes) or not isinstance(passes, Mapping):
        return False
    tolerance = passes.get("tolerance")
    return not isinstance(tolerance, Mapping) or set(tolerance) == {"max", "rms"}


def _is_row(row: object, parts: Iterable[str]) -> bool:
    return isinstance(row, Mapping) and all(isinstance(row.get(part), str) for part in parts)


def _counts(pin: Mapping[str, Any]) -> bool:
    return isinstance(pin.get("occurrence", 0), int)


def _decision(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return str(row["node"]), str(row["variable"]), str(row["format"]), str(row["form"])
