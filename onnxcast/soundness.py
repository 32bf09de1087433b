"""What holds of every result, whatever was asked for: its interface, its validity, its target."""

from collections.abc import Callable

import onnx_ir as ir

from onnxcast.errors import RefusedError
from onnxcast.graph.check import fault, look_for_fault
from onnxcast.graph.opsets import onnx_opset
from onnxcast.original import Original
from onnxcast.targets import Target, why_refused

__all__ = ["Interface", "check_target", "check_valid", "interface", "is_kept"]

Interface = list[tuple[str | None, ir.TypeProtocol | None, str]]
"""Names, order, types and shapes of graph inputs and outputs."""


def interface(model: ir.Model) -> Interface:
    """Read the interface of `model`."""
    values = (*model.graph.inputs, *model.graph.outputs)
    return [(value.name, value.type, str(value.shape)) for value in values]


def is_kept(before: Interface, model: ir.Model, *, but_for_types: bool) -> bool:
    """Whether graph inputs and outputs are what they were, but for types where these may change."""
    after = interface(model)
    if not but_for_types:
        return after == before
    return [(name, shape) for name, _, shape in after] == [
        (name, shape) for name, _, shape in before
    ]


def check_target(model: ir.Model, target: Target) -> None:
    """Hold `model` to what `target` takes.

    Raises:
        RefusedError: It does not take all of it; what it does not is named.
    """
    refused = why_refused(model, target)
    if refused:
        raise RefusedError(
            f"target {target.architecture} does not take the model: "
            f"{'; '.join(refused)}: export it without, or give another target"
        )


def check_valid(model: ir.Model, original: Original) -> Callable[[], None]:
    """Begin to hold `model` to the checker's full check if the source passes it, else to the basic.

    The full check goes on past an op that it does not know with half of the types, so the source is
    asked without what nobody reads, as the result is.

    Returns:
        What waits for the end; `model` must be as it is until then. It raises RefusedError if the
        check fails.
    """
    found = look_for_fault(model, full=True)

    def finish() -> None:
        why = found()
        if why and fault(original.plain(onnx_opset(model)), full=True):
            why = fault(model, full=False)
        if why:
            raise RefusedError(
                f"the result is not valid ONNX ({why}): a fault of onnxcast; please report it"
            )

    return finish
