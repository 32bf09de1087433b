"""What to look at in a result before it is used."""

__all__ = ["warn_of"]

from typing import TYPE_CHECKING

from .console import warn

if TYPE_CHECKING:
    from onnxcast import Result


def warn_of(result: "Result", *, made_up: bool) -> None:
    """Warn of what the device does not do, and of what the proof does not show.

    Args:
        result: What was made.
        made_up: Whether its samples were.
    """
    held_back = {} if result.report.plan is None else result.report.plan.held_back()
    for (op, opset), count in held_back.items():
        warn(
            f"{count} {op} compute in float32 on rounded operands: the op takes the format from "
            f"opset {opset} on; raise the model with --opset {opset} to run it so"
        )
    for finding in result.report.findings:
        if finding.code.name == "CAST_ILLEGAL":
            warn(f"the target cannot do a Cast: {finding.message}")
    others = [each for each in result.report.findings if each.code.name == "OPERANDS_NOT_TAKEN"]
    if others:
        more = f" ({len(others)} nodes are so)" if len(others) > 1 else ""
        warn(
            f"{others[0].message}, which {result.report.target.name} does not{more}; onnxcast "
            "explain tells why"
        )
    _warn_of_proof(result, made_up=made_up)


def _warn_of_proof(result: "Result", *, made_up: bool) -> None:
    search = result.report.search
    if search is not None and search.stopped:
        warn(
            f"{search.stopped}: this is the best result verified so far, with {search.pins} nodes "
            "kept wide; give the search more time for fewer"
        )
    proof = result.report.proof
    if proof is None:
        warn("the result is not verified: leave out --no-verify to prove it")
        return
    if made_up:
        warn(
            f"verified on {result.report.inputs} only: real data may hold what it lacks; "
            "give samples by --inputs"
        )
    if proof.default_level.startswith(("crashed", "failed")):
        warn(
            "loading the result at onnxruntime's default optimisation level "
            f"{proof.default_level}: load it at ORT_ENABLE_EXTENDED"
        )
