"""``onnxcast optimize``: convert, prove, write."""

__all__ = ["optimize"]

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import DownloadColumn

from onnxcast.errors import InputError, RefusedError

from .console import bar, print_json, say, silence, spinner, warn
from .destinations import check_destinations
from .options import (
    MODEL,
    as_json,
    budget,
    cast_bridges,
    choice_of_format,
    max_error,
    samples,
    shapes,
    tolerance,
)
from .pages import model_page

if TYPE_CHECKING:
    from onnxcast import Result


@click.command(short_help="Convert a model, prove it and write it.")
@click.argument("model", type=MODEL)
@click.option(
    "-o",
    "--output",
    type=MODEL,
    metavar="OUT",
    help="The .onnx to write [default: MODEL.<format>.onnx beside the input].",
)
@choice_of_format
@click.option(
    "--opset",
    default="auto",
    metavar="auto|keep|N",
    show_default=True,
    help="Raise the opset as far as needed, keep it or refuse, or raise it to N.",
)
@click.option(
    "--io-types",
    default="keep",
    metavar="keep|narrow|NAME=FORMAT,...",
    show_default=True,
    help="Types of graph inputs and outputs: unchanged, narrow, or a format by name.",
)
@cast_bridges
@click.option(
    "--illegal-casts",
    default="refuse",
    metavar="refuse|keep",
    show_default=True,
    help="Refuse a model with Casts that the target cannot do, or leave these with a warning each.",
)
@click.option(
    "--require-exact-chains",
    is_flag=True,
    help="Refuse chains of Casts that may give another result than one Cast.",
)
@click.option(
    "--disable-inline-cast",
    is_flag=True,
    help="Leave constants as they are, with a Cast behind each, instead of storing them narrow.",
)
@samples
@tolerance
@budget
@click.option(
    "--plan",
    type=MODEL,
    metavar="REPORT.json",
    help="Repeat the decisions of a report, on the same model or a retrained one, without looking "
    "for what to keep wide.",
)
@click.option("--no-verify", is_flag=True, help="Do not prove the result.")
@click.option(
    "--no-repair",
    is_flag=True,
    help="Refuse what does not verify, instead of keeping nodes wide until it does. (What is kept "
    "so is pinned in the model, and later runs keep to it.)",
)
@click.option("--forget-pins", is_flag=True, help="Drop the pins of earlier runs first.")
@click.option("--force", is_flag=True, help="Let the output be the input itself.")
@click.option(
    "--report",
    "reports",
    type=MODEL,
    multiple=True,
    metavar="FILE.html|FILE.json",
    help="Also write a report, as a page to look at or as JSON (repeatable).",
)
@as_json
def optimize(
    model: Path,
    output: Path | None,
    opset: str,
    io_types: str,
    cast_bridges: str,
    illegal_casts: str,
    require_exact_chains: bool,
    disable_inline_cast: bool,
    inputs: Path | None,
    input_shapes: tuple[str, ...],
    tolerance: float | None,
    max_errors: tuple[str, ...],
    metric: str | None,
    budget_seconds: float | None,
    plan: Path | None,
    no_verify: bool,
    no_repair: bool,
    forget_pins: bool,
    force: bool,
    reports: tuple[Path, ...],
    as_json: bool,
    **narrowing: Any,
) -> None:
    """Convert a float32 model to mixed precision and prove that its outputs still match.

    The proof runs the source, the result, and a float32 twin of the result that rounds wherever the
    device would. If it fails, nothing is written.

    \b
    Examples:
      onnxcast optimize model.onnx
      onnxcast optimize model.onnx --fp32-cast all-fp16 --inputs samples.npz -o fast.onnx
      onnxcast optimize model.onnx --scope matmult --dtype bf16 --keep-op Softmax
      onnxcast optimize model.onnx --keep-node '/head/*' --narrow-op Exp --json
      onnxcast optimize model.onnx --fp32-cast matmult-fp16 --matmul-output wide
      onnxcast optimize model.onnx --inputs samples.npz --max-error 1e-3 --budget-seconds 60
      onnxcast optimize model.onnx --report report.html --report report.json
      onnxcast optimize retrained.onnx --inputs samples.npz --plan report.json
    """
    start = time.perf_counter()
    if no_verify:
        for_proof = {
            "--inputs": inputs,
            "--input-shape": input_shapes,
            "--tolerance": tolerance,
            "--max-error": max_errors,
            "--metric": metric,
            "--budget-seconds": budget_seconds,
            "--no-repair": no_repair or None,
        }
        _refuse_for_proof([name for name, given in for_proof.items() if given not in (None, ())])
    chosen_shapes, limits = shapes(input_shapes), max_error(max_errors)
    import onnxcast
    from onnxcast.files import default_output

    target = narrowing.pop("target")
    narrowing.update(
        io_types=io_types,
        inline_cast=not disable_inline_cast,
        cast_bridges=cast_bridges,
        illegal_casts=illegal_casts,
        require_exact_chains=require_exact_chains,
    )
    output = output or default_output(model, _format(narrowing, target, plan))
    check_destinations(model, output, reports, inputs, plan, force=force)
    with spinner() as step:
        result = onnxcast.optimize(
            model,
            target=target,
            inputs=inputs,
            input_shapes=chosen_shapes,
            tolerance=tolerance,
            max_error=limits,
            metric=metric,
            budget_seconds=budget_seconds,
            plan=plan,
            verify=not no_verify,
            repair=not no_repair,
            forget_pins=forget_pins,
            opset=opset,
            drawing=bool(reports),
            progress=step,
            **narrowing,
        )
    files = _write(result, output, reports, force=force)
    _warn(result, made_up=inputs is None)
    with _printed_if_possible():
        if as_json:
            say(f"wrote {', '.join(map(str, files))}")
            print_json(result.report.to_dict())
        else:
            from .summary import print_summary

            print_summary(result.report, files, time.perf_counter() - start)


def _refuse_for_proof(given: Sequence[str]) -> None:
    """Refuse options that only a proof has a use for."""
    if given:
        raise InputError(
            f"--no-verify together with {' and '.join(given)}: these are for the proof; drop one "
            "or the other"
        )


def _format(narrowing: dict[str, Any], target: str | None, plan: Path | None) -> str:
    """The narrow format by name, to call a file after."""
    import onnxcast
    from onnxcast.lock import read_lock
    from onnxcast.targets import get_target

    if plan is not None:
        narrowing = {"fp32_cast": read_lock(plan).report["token"]}
    policy = onnxcast.make_policy(preferred=get_target(target).preferred, **narrowing)
    if policy.fallback is not None:
        return "mixed"
    return policy.format.name if policy.format else "none"


@contextlib.contextmanager
def _printed_if_possible() -> Iterator[None]:
    """The files are there by now, so results that cannot be printed are no failure."""
    try:
        yield
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):  # else whoever read our output has left
            warn(f"the results cannot be printed ({error.strerror}): the files are written")


def _write(result: "Result", output: Path, reports: Sequence[Path], *, force: bool) -> list[Path]:
    """Write the model and the reports, all or none; return the files."""
    from onnxcast.files.atomic import open_beside, settle

    report = None
    try:
        with ExitStack() as undo, bar(DownloadColumn()) as show:
            held = []
            for report in reports:
                held.append(open_beside(report, undo))
                held[-1].write(_text(result, report).encode())
            report = None
            files = result.save(
                output,
                force=force,
                progress=lambda done, total: show(done, total, f"write {output.name}"),
            )
            for report, file in zip(reports, held, strict=True):
                settle(file, report)
            undo.pop_all()
    except OSError as error:
        if report is None:
            raise
        raise RefusedError(
            f"report {report}: cannot be written ({error.strerror}); name another file"
        ) from None
    return [*files, *reports]


def _text(result: "Result", report: Path) -> str:
    """The report as a page or as JSON, by the name of its file."""
    if report.suffix.lower() in (".html", ".htm"):
        return model_page(result.report.to_dict())
    return result.report.to_json()


def _warn(result: "Result", *, made_up: bool) -> None:
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
