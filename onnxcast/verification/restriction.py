"""A model reduced to what some of its outputs need."""

from collections.abc import Collection, Sequence

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxcast.errors import InputError

__all__ = ["chosen_outputs", "restricted"]


def chosen_outputs(model: ir.Model, names: Sequence[str]) -> list[str]:
    """`names`, each once, if all are outputs of `model`.

    Raises:
        InputError: One is not, or there are none.
    """
    known = [value.name or "" for value in model.graph.outputs]
    lacking = [name for name in names if name not in known]
    if lacking or not names:
        what = f"no output {lacking[0]!r}" if lacking else "no output is named"
        raise InputError(f"outputs to verify: {what}; the model's are {', '.join(known)}")
    return list(dict.fromkeys(names))


def restricted(model: ir.Model, names: Collection[str]) -> ir.Model:
    """A copy of `model` that gives only the outputs of these names, by the nodes they need."""
    copy = model.clone()
    kept = [value for value in copy.graph.outputs if value.name in names]
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(kept)
    RemoveUnusedNodesPass()(copy)
    return copy
