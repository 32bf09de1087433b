"""Which data movement happens in the narrow format: what is cheap and rounds nothing anew.

A carrier is narrow if everything it moves is narrow already, or if all its readers are narrow (so
that the rounding they would do happens earlier). A wide reader never sees data rounded only for a
carrier's sake.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.formats import Format
from onnxcast.graph.edit import constant_of
from onnxcast.planning.groups import Group
from onnxcast.policy import Meaning, has_meaning

__all__ = ["narrow_carriers"]


def narrow_carriers(
    carriers: Sequence[Group],
    results: Iterable[ir.Value],
    reads: Iterable[tuple[ir.Node, int]],
    narrow: Format,
) -> tuple[set[Group], set[Group]]:
    """Split off the carriers that move narrow values.

    Args:
        carriers: Groups of carriers and of shape readers that may be narrow, in topological order.
        results: What computing groups give in the narrow format.
        reads: Operands that computing groups read in the narrow format.
        narrow: The format.

    Returns:
        Carriers behind narrow producers (and shape readers of narrow values), and carriers in
        front of narrow readers only.
    """
    values, reads = set(results), set(reads)
    behind: set[Group] = set()
    for group in carriers:
        operands = list(group.operand_values())
        if any(value in values for value in operands) and all(
            value in values or _fits(value, narrow) for value in operands
        ):
            behind.add(group)
            values.update(group.result_values())
    reads.update((group.node, index) for group in behind for index in group.operands)
    ahead: set[Group] = set()
    for group in reversed(carriers):
        if group.results and group not in behind and _all_read_narrow(group, reads):
            ahead.add(group)
            values.update(group.result_values())
            reads.update((group.node, index) for index in group.operands)
    for group in carriers:
        if not group.results and all(value in values for value in group.operand_values()):
            behind.add(group)
    return behind, ahead


def _fits(value: ir.Value, narrow: Format) -> bool:
    """Whether `value` is a small constant that `narrow` holds exactly."""
    tensor = constant_of(value)
    if tensor is None or tensor.size > 1024:
        return False
    array = tensor.numpy()
    return bool(np.array_equal(formats.round_to(array, narrow), array, equal_nan=True))


def _all_read_narrow(group: Group, reads: set[tuple[ir.Node, int]]) -> bool:
    """Whether someone computes with the results of `group`, and only in the narrow format."""
    uses = [
        tuple(use)
        for value in group.result_values()
        for use in value.uses()
        if not has_meaning(use.node, Meaning.METADATA)
    ]
    outputs = any(value.is_graph_output() for value in group.result_values())
    return bool(uses) and not outputs and all(use in reads for use in uses)
