"""The plan: for each type group the format it gets, and why. Made before anything is changed."""

import dataclasses
import enum
from collections import Counter
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxcast.formats import FLOAT32, Format
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import op_name
from onnxcast.planning.bound import Bound
from onnxcast.planning.groups import Group
from onnxcast.planning.reasons import Reason
from onnxcast.policy import Meaning, has_meaning

__all__ = ["Decision", "Form", "Plan", "wide"]


class Form(enum.Enum):
    """How a group uses its format."""

    WIDE = "computes in float32"
    NATIVE = "runs in the format"
    STORAGE = "computes in float32 on operands that were rounded to the format"
    MARKED = "is marked for hardware that rounds by itself"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What one group gets.

    Attributes:
        format: The format of what it reads and gives; float32 for `Form.WIDE`.
        reason: The one cause.
        detail: Names or figures that belong to the cause, or "".
        form: How the format is used.
        reads: Indices of the operands that are read in the format.
        gives: Whether its results are in the format.
        opset: The first later opset at which the op could run in the format, if it cannot now.
        apart: Operands among `reads` that are read in another format, by index.
    """

    format: Format
    reason: Reason
    detail: str = ""
    form: Form = Form.WIDE
    reads: tuple[int, ...] = ()
    gives: bool = False
    opset: int | None = None
    apart: tuple[tuple[int, Format], ...] = ()

    @classmethod
    def rounding(
        cls,
        format_: Format,
        read: Mapping[int, Format],
        reason: Reason,
        detail: str = "",
        form: Form = Form.STORAGE,
        opset: int | None = None,
    ) -> "Decision":
        """The decision to round operands, each to its format, and to compute in float32."""
        apart = tuple((index, each) for index, each in read.items() if each != format_)
        return cls(format_, reason, detail, form, tuple(read), opset=opset, apart=apart)

    def read_in(self, index: int) -> Format:
        """The format in which operand `index`, one of `reads`, is read."""
        return dict(self.apart).get(index, self.format) if self.apart else self.format

    @property
    def is_wide(self) -> bool:
        """Whether nothing about the group changes."""
        return self.form is Form.WIDE


@dataclasses.dataclass(frozen=True)
class Plan:
    """Decisions for all float32 groups of a model, in topological order.

    Attributes:
        decisions: One per group.
        types: Element types of the model that the plan is for.
        labels: What nodes without a name are called, as long as the model is unchanged.
        shapes: Of the model that the plan is for.
        bound: What its Casts cost at least; None where nothing is cast (or only graph inputs are).
        fallbacks: The nodes that leave the range of the narrow format, with the figure, where there
            is another format for them.
    """

    decisions: Mapping[Group, Decision]
    types: ElementTypes
    labels: Mapping[ir.Node, str]
    shapes: Shapes
    bound: Bound | None = None
    fallbacks: Mapping[ir.Node, str] = dataclasses.field(default_factory=dict)

    def narrow(self) -> Iterator[tuple[Group, Decision]]:
        """The groups that change, with what they get."""
        for group, decision in self.decisions.items():
            if not decision.is_wide:
                yield group, decision

    def held_back(self) -> dict[tuple[str, int], int]:
        """How many matmul-like nodes of an op lack a native form for want of a later opset.

        Returns:
            Counts by op and the first opset that allows the format.
        """
        counts: Counter[tuple[str, int]] = Counter()
        for group, decision in self.decisions.items():
            if decision.opset is not None and has_meaning(group.node, Meaning.MATMUL):
                counts[op_name(group.node), decision.opset] += 1
        return dict(counts)

    def crossings(self) -> tuple[list[str], list[str]]:
        """What float32r values cross calls and unknown ops: their operands, and their results.

        Both are empty where no group is marked. Seed: call_ins, call_outs.
        """
        ins: dict[str, None] = {}
        outs: dict[str, None] = {}
        if any(decision.form is Form.MARKED for decision in self.decisions.values()):
            for group, decision in self.decisions.items():
                if decision.reason in (Reason.CALL, Reason.OPAQUE):
                    ins.update((value.name or "", None) for value in group.operand_values())
                    outs.update((value.name or "", None) for value in group.result_values())
        return list(ins), list(outs)

    def named_nodes(self) -> dict[tuple[str, int], ir.Node]:
        """The nodes by what they are called, and how many of that name stand before."""
        seen: Counter[str] = Counter()
        found = {}
        for node in dict.fromkeys(group.node for group in self.decisions):
            name = node.name or self.labels[node]
            found[name, seen[name]] = node
            seen[name] += 1
        return found

    def pins(self) -> list[dict[str, str]]:
        """The nodes that a measured figure keeps wide, with it.

        Where others of the same name stand before, ``occurrence`` says how many.
        """
        return self._by_name(
            {
                group.node: decision.detail
                for group, decision in self.decisions.items()
                if decision.reason in (Reason.PINNED, Reason.WEIGHTS)
            }
        )

    def fallback_rows(self) -> list[dict[str, str]]:
        """The nodes that leave the range of the narrow format, like those of `pins`."""
        return self._by_name(self.fallbacks)

    def _by_name(self, figures: Mapping[ir.Node, str]) -> list[dict[str, str]]:
        return [
            {
                "node": name,
                "figure": figures[node],
                **({"occurrence": str(number)} if number else {}),
            }
            for (name, number), node in (self.named_nodes() if figures else {}).items()
            if node in figures
        ]

    def rows(self) -> list[dict[str, str]]:
        """The plan as plain records, one per group, for people and reports."""
        return [
            {
                "node": group.node.name or self.labels[group.node],
                "op": op_name(group.node),
                "variable": group.variable,
                "format": decision.format.name,
                "form": decision.form.name,
                "reason": decision.reason.name,
                "because": decision.reason.value,
                "detail": decision.detail,
            }
            for group, decision in self.decisions.items()
        ]


def wide(reason: Reason, detail: str = "", opset: int | None = None) -> Decision:
    """The decision to leave a group float32."""
    return Decision(FLOAT32, reason, detail, opset=opset)
