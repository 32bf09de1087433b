"""The record of a run: every decision, every change, sizes, proof and versions, as JSON.

``report.schema.json`` in this package says what is in it.
"""

import dataclasses
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnxcast.diagnostics import Diagnostic
from onnxcast.drawing import DrawnNode
from onnxcast.files import attribute_tensors
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import contents, label
from onnxcast.planning import Plan, Route, cast_costs
from onnxcast.search import SearchRecord
from onnxcast.targets import Target
from onnxcast.verification.layers import Layer
from onnxcast.verification.proof import Proof

__all__ = ["Measure", "Report", "measure", "proof_dict", "sign", "versions"]

_LAYOUT = 2
"""Rises when a key of the report changes its meaning; new keys may come without."""

_PROVENANCE = ("onnxcast.version", "onnxcast.token", "onnxcast.target", "onnxcast.target_hash")

_PACKAGES = ("onnxcast", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy", "ml_dtypes")


@dataclasses.dataclass(frozen=True)
class Measure:
    """Sizes of a model.

    Attributes:
        nodes: Nodes of all scopes.
        casts: Casts among them.
        hops: Conversions that the target takes for the Casts.
        cast_bytes: Bytes that these write; a dimension that is not known counts 1.
        tensor_bytes: Bytes of all initializers and tensor attributes.
    """

    nodes: int
    casts: int
    hops: int
    cast_bytes: int
    tensor_bytes: int


def measure(
    model: ir.Model,
    target: Target,
    shapes: Shapes | None = None,
    types: ElementTypes | None = None,
) -> Measure:
    """Count what is in `model`, and what its Casts cost on `target`; weights are not read.

    Args:
        model: The model.
        target: Prices Casts.
        shapes: Of the model before Casts were added, if they are known.
        types: Of the model, if they are known; of what is in functions, too.
    """
    graphs, nodes = contents(model)
    described = [node for node in nodes if node.attributes.data]  # the others have nothing to count
    costs = cast_costs(model, target, shapes, described, types)
    initializers = (value.const_value for graph in graphs for value in graph.initializers.values())
    return Measure(
        nodes=len(nodes),
        casts=costs.casts,
        hops=costs.hops,
        cast_bytes=costs.bytes,
        tensor_bytes=sum(
            tensor.nbytes
            for tensor in (*initializers, *attribute_tensors(described))
            if tensor is not None and tensor.dtype != ir.DataType.STRING
        ),
    )


def versions() -> dict[str, str]:
    """Versions of all that a result depends on."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found}


def sign(model: ir.Model, token: str, target: Target) -> bool:
    """Write into the metadata of `model` what made it; return whether that changed anything."""
    values = (versions()["onnxcast"], token, target.name, target.digest)
    signature = dict(zip(_PROVENANCE, values, strict=True))
    known = model.metadata_props
    if all(known.get(key) == value for key, value in signature.items()):
        return False
    known.update(signature)
    return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What a run decided, did and measured.

    Attributes:
        source: Path of the source, or "" for a model in memory.
        token: What was asked for.
        target: The target.
        opset: The ONNX opset before and after; None where the ONNX domain is not imported.
        plan: Every type group with its format and reason; None for scope ``none``.
        findings: Every Cast added or folded and every constant narrowed or left alone.
        chains: Casts that the target does in more than one conversion.
        before: Sizes of the source.
        after: Sizes of the result.
        inputs: Where the samples came from.
        proof: Figures of the verification; None if it was not asked for.
        seconds: Wall-clock seconds by step.
        search: What the search for pins did; None if there was none.
        request: What was asked for, so that it can be asked for again.
        drawing: The nodes of the result, if that was asked for.
        layers: The values that source and result have in common, if that was asked for.
    """

    source: str
    token: str
    target: Target
    opset: tuple[int | None, int | None]
    plan: Plan | None
    findings: tuple[Diagnostic, ...]
    chains: tuple[Route, ...]
    before: Measure
    after: Measure
    inputs: str
    proof: Proof | None
    seconds: dict[str, float]
    search: SearchRecord | None = None
    request: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    drawing: Sequence[DrawnNode] = ()
    layers: Sequence[Layer] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts, strings and numbers; figures that are not finite are strings."""
        return {
            "versions": versions(),
            "layout": _LAYOUT,
            "source": self.source,
            "request": dict(self.request),
            "token": self.token,
            "target": self.target.name,
            "target_hash": self.target.digest,
            "opset": {"before": self.opset[0], "after": self.opset[1]},
            "groups": [] if self.plan is None else self.plan.rows(),
            "pins": [] if self.plan is None else self.plan.pins(),
            **self._fallbacks(),
            **self._crossings(),
            "findings": [_finding(finding) for finding in self.findings],
            "casts": self._casts(),
            "before": dataclasses.asdict(self.before),
            "after": dataclasses.asdict(self.after),
            "inputs": self.inputs,
            "search": None if self.search is None else _search_dict(self.search),
            "verification": None if self.proof is None else proof_dict(self.proof),
            "seconds": {step: round(seconds, 3) for step, seconds in self.seconds.items()},
            "command": self.target.command,
            "advice": list(self.target.advice),
            "limits": self._limits(),
            "layers": list(map(_layer, self.layers)),
            "graph": [node.to_dict() for node in self.drawing],
        }

    def _limits(self) -> dict[str, dict[str, float]]:
        """What the float formats of the plan reach to, and down to."""
        narrow = () if self.plan is None else self.plan.narrow()
        formats = dict.fromkeys(decision.format for _, decision in narrow)
        return {
            format_.name: {"max": format_.max, "smallest": 2.0**format_.quantum}
            for format_ in formats
        }

    def _fallbacks(self) -> dict[str, list[dict[str, str]]]:
        """The nodes that leave the range of the narrow format, in the mode that has another."""
        if self.plan is None or not self.token.endswith("mixed"):
            return {}
        return {"fallbacks": self.plan.fallback_rows()}

    def _crossings(self) -> dict[str, list[str]]:
        """The seed's bookkeeping, in the mode that has it."""
        if self.plan is None or not self.token.endswith("fp32r"):
            return {}
        ins, outs = self.plan.crossings()
        return {"call_ins": ins, "call_outs": outs}

    def _casts(self) -> dict[str, Any]:
        """Conversions of the target and bytes that they write, in all and by longer chains."""
        bound = None if self.plan is None else self.plan.bound
        return {
            "hops": self.after.hops,
            "bytes": self.after.cast_bytes,
            "bound": None if bound is None else bound.to_dict(),
            "chains": [
                {"node": label(route.node), "bytes": route.bytes, **route.chain.to_dict()}
                for route in self.chains
            ],
        }

    def to_json(self) -> str:
        """The report as indented JSON."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def proof_dict(proof: Proof) -> dict[str, Any]:
    """A proof as plain lists, dicts, strings and numbers; figures not finite are strings."""
    plain: dict[str, Any] = _plain({**dataclasses.asdict(proof), "assumed": dict(proof.assumed)})
    return plain


def _search_dict(record: SearchRecord) -> dict[str, Any]:
    return {**dataclasses.asdict(record), "note": record.note}


def _layer(layer: Layer) -> dict[str, Any]:
    """A layer in short: errors in four digits, the range in six, nothing that is empty."""
    found = {
        "value": layer.value,
        "node": layer.node,
        "op": layer.op,
        "max_error": _digits(layer.max_error, 4),
        "rms_error": _digits(layer.rms_error, 4),
        "why": layer.why,
        "low": _digits(layer.low, 6),
        "high": _digits(layer.high, 6),
        "smallest": _digits(layer.smallest, 6),
        "non_finite": layer.non_finite,
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def _digits(value: float, count: int) -> float | str | None:
    """In so many significant digits; None for the range of no elements."""
    if math.isfinite(value):
        return float(f"{value:.{count}g}")
    return None if count > 4 else str(value)


def _finding(finding: Diagnostic) -> dict[str, str]:
    return {
        "code": finding.code.value,
        "kind": finding.code.name,
        "message": finding.message,
        "node": finding.node,
        "value": finding.value,
    }


def _plain(value: Any) -> Any:
    """`value` with what JSON lacks (infinities, NaN) as strings."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
