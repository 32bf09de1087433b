"""``onnxcast verify``: compare any two models."""

__all__ = ["verify"]

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import fail, print_json, results, spinner, warn
from .options import MODEL, as_json, names, samples, shapes, tolerance
from .tables import print_proof

if TYPE_CHECKING:
    from onnxcast.verification.proof import Proof

_DOES_NOT_MATCH = 1


@click.command(short_help="Compare any two models.")
@click.argument("before", type=MODEL)
@click.argument("after", type=MODEL)
@samples
@tolerance
@as_json
def verify(
    before: Path,
    after: Path,
    inputs: Path | None,
    input_shapes: tuple[str, ...],
    verify_outputs: str | None,
    tolerance: float | None,
    as_json: bool,
) -> int:
    """Prove that the outputs of the model AFTER match those of the model BEFORE.

    AFTER may come from any converter: what is narrow in it is rounded as the device would, which
    onnxruntime alone does not do on a CPU. The exit code is 0 if everything matches, else 1.

    \b
    Examples:
      onnxcast verify model.onnx model.float16.onnx
      onnxcast verify model.onnx other.onnx --inputs samples/ --tolerance 5e-3
    """
    chosen_shapes = shapes(input_shapes)
    import onnxcast
    from onnxcast.report import proof_dict

    with spinner() as step:
        proof = onnxcast.verify(
            before,
            after,
            inputs=inputs,
            input_shapes=chosen_shapes,
            tolerance=tolerance,
            verify_outputs=names(verify_outputs),
            progress=step,
        )
    if inputs is None:
        warn(
            "compared on 1 made-up sample only: real data may hold what it lacks; "
            "give samples by --inputs"
        )
    if as_json:
        print_json(proof_dict(proof))
    else:
        print_proof(results(), proof)
    if proof.ok:
        return 0
    fail(_failure(proof))
    return _DOES_NOT_MATCH


def _failure(proof: "Proof") -> str:
    """Why the proof failed: what did not run, else the worst output and the first bad node."""
    if proof.as_is.startswith("failed"):
        return f"onnxruntime does not take AFTER: it {proof.as_is}; repair it, or convert it again"
    if proof.twin != "ran":
        return f"nothing proves the numbers of AFTER: its twin {proof.twin}"
    return proof.mismatch
