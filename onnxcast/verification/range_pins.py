"""Which narrow nodes meet values that leave the format, from the ranges of a run."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.formats import FLOAT32, Format
from onnxcast.planning import Decision, Group, Kind, Plan
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.ranges import Range, measure_magnitudes, measure_ranges
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

__all__ = ["out_of_range", "saturating", "suspicious_ranges"]

# Another sample may reach further than those that were measured.
_HEADROOM = 2.0

# A value whose largest elements would lose more than this much of themselves has vanished.
_LARGEST_RELATIVE_ERROR = 2.0**-6

# In an exponent a step is the relative error of what comes out of it.
_COARSEST_EXPONENT = 0.5


def suspicious_ranges(
    model: ir.Model, plan: Plan, feeds: Sequence[Feeds], worker: Worker, folder: pathlib.Path
) -> Mapping[str, Range]:
    """Ranges of the values that might leave the format that `plan` gives them.

    Args:
        model: The model that the plan is for; it is not changed.
        plan: What would be narrowed.
        feeds: The samples.
        worker: Runs the model.
        folder: For instrumented copies.

    Raises:
        RuntimeFailure: The model does not run.
    """
    rounded: dict[str, Format] = {}
    divisors: set[str] = set()
    exponents = {value.name or "" for value in _exponents(plan)}
    for group, decision in plan.narrow():
        for value, format_, divides in _rounded_values(group, decision):
            rounded[value.name or ""] = format_
            divisors.update([value.name or ""] if divides else [])
    # A format with float32's exponents is hardly ever left; the proof sees to the lowest float32.
    looked_at = [
        name
        for name, format_ in rounded.items()
        if format_.emin > FLOAT32.emin or name in divisors or name in exponents
    ]
    magnitudes = measure_magnitudes(model, looked_at, feeds, worker, folder)
    limits = {
        name: rounded[name].max
        for name, absmax in magnitudes.items()
        if name in divisors
        or _is_suspicious(absmax, rounded[name])
        or (name in exponents and _is_coarse(absmax, rounded[name]))
    }
    return measure_ranges(model, limits, feeds, worker, folder) if limits else {}


def _is_suspicious(absmax: float, format_: Format) -> bool:
    return not absmax < np.inf or _leaves(absmax, format_) or 0 < absmax < _floor(format_)


def _is_coarse(magnitude: float, format_: Format) -> bool:
    """Whether the format goes in steps at `magnitude` that are too coarse for an exponent."""
    return _COARSEST_EXPONENT < 2.0 ** (1 - format_.significand) * magnitude < np.inf


def out_of_range(
    plan: Plan,
    ranges: Mapping[str, Range],
    *,
    masks: bool = False,
    instead: Format | None = None,
) -> dict[ir.Node, str]:
    """The nodes that `plan` narrows although their values leave the format, with the figure.

    A value leaves the format if its largest elements would overflow, or be rounded away where more
    is done with it than adding it to something; if a divisor would become zero; or if an exponent
    would go in steps that are too coarse.

    Args:
        plan: What would be narrowed.
        ranges: The range of each value by name.
        masks: Whether what is far below 0 is a mask, clamped on request, and may overflow.
        instead: A format in place of those of the plan.
    """
    found: dict[ir.Node, str] = {}
    exponents = _exponents(plan)
    for group, decision in plan.narrow():
        for value, format_, divides in _rounded_values(group, decision):
            measured = ranges.get(value.name or "")
            figure = (
                ""
                if measured is None
                else _figure(
                    value, measured, instead or format_, divides, masks, value in exponents
                )
            )
            if figure:
                found[group.node] = f"{value.name} {figure}"
    return found


def saturating(plan: Plan, ranges: Mapping[str, Range]) -> list[Diagnostic]:
    """A finding per value that `plan` rounds to a format without infinities and that leaves it."""
    if not ranges:
        return []
    found = {
        value.name or "": measured.beyond
        for group, decision in plan.narrow()
        for value, format_, _ in _rounded_values(group, decision)
        if not format_.has_inf
        and (measured := ranges.get(value.name or "")) is not None
        and measured.beyond
    }
    return [
        Diagnostic(
            code=Code.VALUE_SATURATES,
            message=f"{name}: {count} elements beyond the range of the format on the samples",
            value=name,
        )
        for name, count in found.items()
    ]


def _rounded_values(group: Group, decision: Decision) -> Iterator[tuple[ir.Value, Format, bool]]:
    """The values rounded for `group`, each with the format and whether it divides by it.

    What only moves values, or reads their shape, rounds none: whoever makes or reads them does.
    """
    if has_meaning(group.node, Meaning.METADATA):
        return
    if group.kind is Kind.TIED or (has_meaning(group.node, Meaning.CARRIER) and decision.gives):
        return
    for index in decision.reads:
        value = group.node.inputs[index]
        if value is not None:
            divides = index == 1 and has_meaning(group.node, Meaning.DIVIDING)
            yield value, decision.read_in(index), divides
    for value in group.result_values() if decision.gives else ():
        yield value, decision.format, False


def _readers(value: ir.Value) -> Iterator[ir.Node]:
    """The nodes that read `value`, moved or not."""
    pending, seen = [value], {value}
    while pending:
        for reader in pending.pop().consumers():
            yield reader
            if has_meaning(reader, Meaning.CARRIER):
                fresh = [output for output in reader.outputs if output not in seen]
                pending.extend(fresh)
                seen.update(fresh)


def _only_added(value: ir.Value) -> bool:
    """Whether all that is done with `value`, moved or not, is adding it to something."""
    kinds = (Meaning.CARRIER, Meaning.ADDING)
    return all(any(has_meaning(node, kind) for kind in kinds) for node in _readers(value))


def _exponents(plan: Plan) -> set[ir.Value]:
    """The values that are taken to the exponent, moved or added to something or not."""
    found: set[ir.Value] = set()
    nodes = {group.node for group in plan.decisions}
    pending = [node for node in nodes if has_meaning(node, Meaning.EXPONENTIAL)]
    while pending:
        for value in pending.pop().inputs:
            if value is None or value in found:
                continue
            found.add(value)
            producer = value.producer()
            kinds = (Meaning.CARRIER, Meaning.ADDING)
            if producer is not None and any(has_meaning(producer, kind) for kind in kinds):
                pending.append(producer)
    return found


def _figure(
    value: ir.Value, measured: Range, format_: Format, divides: bool, masks: bool, exponent: bool
) -> str:
    reached = max(measured.high, 0.0) if masks else measured.absmax
    if _leaves(reached, format_):
        return f"reaches {reached:.6g}"
    if 0 < measured.absmax < _floor(format_) and not _only_added(value):
        return f"reaches no further than {measured.absmax:.6g}"
    if exponent and _is_coarse(abs(measured.high), format_):
        return f"goes to the exponent and up to {measured.high:.6g}, in too coarse steps"
    if divides and measured.smallest < 2.0 ** (format_.quantum - 1):
        return f"divides and goes down to {measured.smallest:.6g}"
    return ""


def _leaves(magnitude: float, format_: Format) -> bool:
    rounded = formats.round_to(np.array([magnitude * _HEADROOM]), format_, saturate=False)
    return not np.isfinite(rounded[0])


def _floor(format_: Format) -> float:
    """Below this magnitude rounding is too coarse, as subnormal numbers have few bits."""
    coarse = max(_LARGEST_RELATIVE_ERROR, 2.0**-format_.significand)
    return 2.0 ** (format_.quantum - 1) / coarse
