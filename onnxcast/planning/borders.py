"""Where narrow and wide meet: which computing groups are islands, and which data moves narrow.

Both are minimum cuts over one network for the whole model. The first weighs Casts against what wide
groups move; the second takes computing groups as they are, and places Casts around data movement.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import onnx_ir as ir

from onnxcast.formats import FLOAT32
from onnxcast.graph.edit import is_plain_cast
from onnxcast.graph.fills import retyped_fill
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.planning.bound import Bound
from onnxcast.planning.carriers import Carried, place_carriers
from onnxcast.planning.cast_cut import Fixed
from onnxcast.planning.groups import Group
from onnxcast.planning.islands import find_islands
from onnxcast.planning.plan import Decision, Form, wide
from onnxcast.planning.prices import Prices
from onnxcast.planning.readers import Readers
from onnxcast.planning.reasons import Reason
from onnxcast.planning.storage import fills_type
from onnxcast.policy import Minimise, Policy, Scope
from onnxcast.targets import Target

__all__ = ["Borders", "Facts"]

_Decisions = Mapping[Group, Decision]


class Facts(NamedTuple):
    """What is known of a model, whatever is asked for.

    Attributes:
        nodes: Those of all scopes.
        types: Of its values.
        shapes: Of its values.
        readers: Of its values.
    """

    nodes: Sequence[ir.Node]
    types: ElementTypes
    shapes: Shapes
    readers: Readers


class Borders:
    """Decides by what Casts cost, for one model and one format.

    Args:
        facts: The model.
        policy: What is asked for; it has a format.
        target: Prices Casts.
        narrow: The element types of all formats that the whole plan may use.
    """

    def __init__(
        self,
        facts: Facts,
        policy: Policy,
        target: Target,
        narrow: Collection[ir.DataType | None],
    ) -> None:
        assert policy.format is not None
        self._facts = facts
        self._policy = policy
        self._narrow = target.realised(policy.format)
        self._dtypes = narrow
        counted = policy.minimise is Minimise.CASTS or not self._ranks_known()
        self._prices = Prices(self._narrow, target, None if counted else facts.shapes)

    def islands(
        self, free: Sequence[Group], carriers: Sequence[Group], computing: _Decisions
    ) -> dict[Group, Decision]:
        """What is cheaper left wide.

        None is if all the model would be float32 then: to narrow nothing is not what was asked for.

        Args:
            free: Those of `computing` that may have either format.
            carriers: Groups of carriers that may be narrow.
            computing: Decisions of all computing groups.
        """
        chosen = set(free)
        others = [(group, each) for group, each in computing.items() if group not in chosen]
        fixed = self._fixed(others)
        islands = find_islands(
            free, carriers, fixed, self._narrow, self._prices, self._facts.readers
        )
        narrow = len(islands) < len(free) or any(not each.is_wide for _, each in others)
        found = islands if narrow or self._is_mixed() else ()
        return {group: wide(Reason.ISLAND) for group in found}

    def carriers(
        self, carriers: Sequence[Group], computing: _Decisions
    ) -> tuple[dict[Group, Decision], Bound | None]:
        """What becomes of carriers, and what the Casts of the whole plan cost at least."""
        fixed = self._fixed(computing.items())
        carried = place_carriers(carriers, fixed, self._narrow, self._prices, self._facts.readers)
        moved = {group: self._moved(group, carried) for group in carriers}
        return moved, self._bound(carried, computing)

    def _is_mixed(self) -> bool:
        """Whether the model has values in a narrow format already."""
        return any(
            self._facts.types.dtype(value) in self._dtypes
            for node in self._facts.nodes
            for value in (*node.inputs, *node.outputs)
        )

    def _ranks_known(self) -> bool:
        """Whether all float32 and narrow values have a rank; a second run must find the same."""
        dtypes = (ir.DataType.FLOAT, *self._dtypes)
        return all(
            self._facts.shapes.is_ranked(value)
            for node in self._facts.nodes
            for value in node.outputs
            if (dtype := self._facts.types.dtype(value)) is not None and dtype in dtypes
        )

    def _fixed(self, computing: Iterable[tuple[Group, Decision]]) -> Fixed:
        """What `computing` makes and reads in the narrow format."""
        fixed = Fixed(set(), [], [], set())
        for group, each in computing:
            if each.gives and each.format == self._narrow:
                fixed.results.update(group.result_values())
            uses = fixed.rounded if each.form is Form.STORAGE else fixed.reads
            inputs = group.node.inputs
            for index in each.reads:
                if each.read_in(index) == self._narrow:
                    value = inputs[index]
                    assert value is not None
                    uses.append(value)
            if each.reason is Reason.TYPED_BY_ATTRIBUTE and self._is_fill(group.node):
                fixed.fills.update(group.result_values())
            if each.reason is Reason.USER_CAST and fills_type(self._narrow):
                self._add_cast(fixed, group.node)
        return fixed

    def _is_fill(self, node: ir.Node) -> bool:
        """Whether `node` can fill its result in the narrow format."""
        dtype = self._narrow.dtype
        return (
            dtype is not None and retyped_fill(node, dtype, self._facts.types.schemas) is not None
        )

    def _add_cast(self, fixed: Fixed, node: ir.Node) -> None:
        """Add `node`, a Cast of the model's own, if it is one from or to the narrow format."""
        dtype = self._narrow.dtype
        source = node.inputs[0]
        if dtype is not None and source is not None and is_plain_cast(node, dtype):
            fixed.reads.append(source)
        elif self._facts.types.dtype(source) == dtype and is_plain_cast(node, ir.DataType.FLOAT):
            fixed.results.add(node.outputs[0])

    def _moved(self, group: Group, carried: Carried) -> Decision:
        if group in carried.behind or group in carried.ahead:
            behind = group in carried.behind
            reason = Reason.CARRIES_NARROW if behind else Reason.FEEDS_NARROW
            form = Form.MARKED if self._policy.is_float32r else Form.NATIVE
            return Decision(self._narrow, reason, "", form, group.operands, gives=True)
        if group in carried.cheaper:
            return wide(Reason.CHEAPER_WIDE)
        moves = group.results or group.entries
        return wide(Reason.CARRIES_WIDE if moves else Reason.METADATA)

    def _bound(self, carried: Carried, computing: _Decisions) -> Bound | None:
        if self._policy.is_float32r or self._policy.scope is Scope.INPUTS:
            return None
        why_not = "" if carried.exact else "prices beyond 31 bits are rounded"
        third = {format_ for each in computing.values() for _, format_ in each.apart}
        third.update(each.format for each in computing.values())
        third.difference_update([FLOAT32, self._narrow])
        if third:
            why_not = f"some operands are {' and '.join(sorted(map(str, third)))}"
        if self._prices.are_bits:
            return Bound(carried.price // 8, "bytes", why_not)
        return Bound(carried.price, "casts", why_not)
