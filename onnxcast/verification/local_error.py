"""What each narrow node adds to the error by itself, ranked.

One instrumented run of the source in which every node that a plan narrows is computed a second
time, from the source's own values, with operands and results rounded::

    y = Mul (x, w)                 # the source's node
    x_low, w_low = Cast, Cast      # rounded, shared by all readers
    s = Mul (x_low, w_low)
    s_low = Cast (s)               # rounded
    d = Sub (s_low, y)             # reduced to its largest magnitude, as y is
"""

import pathlib
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxcast.formats import Format
from onnxcast.graph.opsets import onnx_opset
from onnxcast.planning import Decision, Group, Plan
from onnxcast.policy import Meaning, has_meaning
from onnxcast.verification.ranges import run_numbers
from onnxcast.verification.reductions import FIRST_OPSET, Reducer
from onnxcast.verification.rounding import Roundings
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

__all__ = ["rank_by_local_error"]

# Below this a result has no scale; its error is then judged as it is.
_SMALLEST_SCALE = 1e-30


def rank_by_local_error(
    model: ir.Model,
    plan: Plan,
    feeds: Sequence[Feeds],
    worker: Worker,
    folder: pathlib.Path,
) -> list[tuple[ir.Node, float]]:
    """The nodes that `plan` narrows with their own relative error, the worst first.

    Nodes inside subgraphs come last with the error 0: they cannot be seen from outside.

    Args:
        model: The model that the plan is for; it is not changed.
        plan: What would be narrowed.
        feeds: The samples.
        worker: Runs the instrumented model.
        folder: For the instrumented copy.

    Raises:
        RuntimeFailure: The instrumented model does not run.
    """
    groups = [
        (group, decision)
        for group, decision in plan.narrow()
        if group.results and not has_meaning(group.node, Meaning.CARRIER)
    ]
    errors = dict.fromkeys((group.node for group, _ in groups), 0.0)
    if (onnx_opset(model) or 0) >= FIRST_OPSET:
        shadows = _Shadows(model, plan)
        for group, decision in groups:
            shadows.watch(group, decision)
        rows = run_numbers(shadows.model, shadows.outputs, feeds, worker, folder)
        figures = {name: float(row.max()) for name, row in rows.items()}
        for group, _ in groups:
            errors[group.node] = max(errors[group.node], shadows.error(group, figures))
    return sorted(errors.items(), key=lambda entry: -entry[1])


class _Shadows:
    """A copy of a model with a second, rounded computation beside each narrow node."""

    def __init__(self, model: ir.Model, plan: Plan) -> None:
        self.model = model.clone()
        self.outputs: dict[str, str] = {}
        self._copies = dict(zip(model.graph, self.model.graph, strict=True))
        self._narrow = {
            (group.node, index): decision.format
            for group, decision in plan.narrow()
            for index in decision.reads
        }
        self._rounded: dict[tuple[ir.Value, Format], ir.Value] = {}
        self._shadows: dict[ir.Node, ir.Node] = {}
        self._keys: dict[Group, list[tuple[str, str]]] = {}
        self._reducer = Reducer(self.model)
        self._roundings = Roundings(self.model, self._reducer.names)

    def watch(self, group: Group, decision: Decision) -> None:
        """Reduce the differences of `group`'s results, and the results themselves."""
        copy = self._copies.get(group.node)
        if copy is None:  # inside a subgraph
            return
        shadow = self._shadow(group.node, copy)
        for index in group.results:
            result = copy.outputs[index]
            low = shadow.outputs[index]
            if decision.gives:
                low = self._round(low, decision.format)
            difference = self._reducer.add("Sub", low, result)
            error, scale = f"error of {result.name}", f"scale of {result.name}"
            self.outputs[error] = self._reducer.absmax(difference, within=result)
            self.outputs[scale] = self._reducer.absmax(result)
            self._keys.setdefault(group, []).append((error, scale))

    def error(self, group: Group, figures: Mapping[str, float]) -> float:
        """Largest difference relative to the largest magnitude; 0 for what was not watched."""
        return max(
            (
                figures[error] / max(figures[scale], _SMALLEST_SCALE)
                for error, scale in self._keys.get(group, ())
            ),
            default=0.0,
        )

    def _shadow(self, node: ir.Node, copy: ir.Node) -> ir.Node:
        if node not in self._shadows:
            operands = list(copy.inputs)
            for index, value in enumerate(operands):
                format_ = self._narrow.get((node, index))
                if value is not None and format_ is not None:
                    operands[index] = self._round(value, format_)
            shadow = ir.Node(
                copy.domain,
                copy.op_type,
                operands,
                copy.attributes.values(),
                num_outputs=len(copy.outputs),
            )
            for output, original in zip(shadow.outputs, copy.outputs, strict=True):
                output.name = self._reducer.names.fresh("shadow") if original.name else ""
            self.model.graph.append(shadow)
            self._shadows[node] = shadow
        return self._shadows[node]

    def _round(self, value: ir.Value, format_: Format) -> ir.Value:
        key = (value, format_)
        if key not in self._rounded:
            nodes = self._roundings.nodes(value, format_)
            self.model.graph.extend(nodes)
            self._rounded[key] = nodes[-1].outputs[0]
        return self._rounded[key]
