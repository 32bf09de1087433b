"""``onnxcast optimize``: convert, prove, write."""

__all__ = ["optimize"]

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnxcast.errors import InputError

from .check import check_models
from .console import print_json, say, silence, spinner, warn
from .destinations import check_destinations, format_name
from .layout import check_data, is_external, layout
from .options import (
    MODEL,
    as_json,
    budget,
    cast_bridges,
    choice_of_format,
    max_error,
    names,
    samples,
    shapes,
    tolerance,
)
from .tasks import Task, check_tasks, make_tasks
from .warnings import warn_of
from .writing import write_results

if TYPE_CHECKING:
    from onnxcast import Result


@click.command(short_help="Convert a model, prove it and write it.")
@click.argument("models", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=MODEL,
    metavar="OUT",
    help="The .onnx to write, or the folder for several [default: MODEL.<format>.onnx beside the "
    "input].",
)
@layout
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
@click.option(
    "--force", is_flag=True, help="Let the output be the input itself, and replace --location."
)
@click.option(
    "--report",
    "reports",
    type=MODEL,
    multiple=True,
    metavar="FILE.html|FILE.json",
    help="Also write a report, as a page to look at or as JSON (repeatable); of several models, a "
    "folder.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; end with 1 if there is something to do.",
)
@as_json
def optimize(
    models: tuple[Path, ...],
    output: Path | None,
    external_data: bool,
    inline: bool,
    location: str | None,
    opset: str,
    io_types: str,
    cast_bridges: str,
    illegal_casts: str,
    require_exact_chains: bool,
    disable_inline_cast: bool,
    inputs: Path | None,
    input_shapes: tuple[str, ...],
    verify_outputs: str | None,
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
    check: bool,
    as_json: bool,
    **narrowing: Any,
) -> int:
    """Convert float32 models to mixed precision and prove that their outputs still match.

    Models that share a data file are best given together: it is then written once. The proof runs
    the source, the result, and a float32 twin of the result that rounds wherever the device would.
    If it fails, nothing is written.

    \b
    Examples:
      onnxcast optimize model.onnx
      onnxcast optimize model.onnx --fp32-cast all-fp16 --inputs samples.npz
      onnxcast optimize model.onnx --scope matmult --dtype bf16 --keep-op Softmax
      onnxcast optimize model.onnx --keep-node '/head/*' --narrow-op Exp --json
      onnxcast optimize model.onnx --fp32-cast matmult-fp16 --matmul-output wide
      onnxcast optimize model.onnx --inputs samples.npz --max-error 1e-3
      onnxcast optimize model.onnx --report report.html --report report.json
      onnxcast optimize retrained.onnx --inputs samples.npz --plan report.json
      onnxcast optimize decoder.onnx decoder_with_past.onnx -o fast/
      onnxcast optimize --check *.fp16.onnx --fp32-cast all-fp16 --no-verify
    """
    start = time.perf_counter()
    if no_verify:
        for_proof = {
            "--inputs": inputs,
            "--input-shape": input_shapes,
            "--verify-outputs": verify_outputs,
            "--tolerance": tolerance,
            "--max-error": max_errors,
            "--metric": metric,
            "--budget-seconds": budget_seconds,
            "--no-repair": no_repair or None,
        }
        _refuse_for_proof([name for name, given in for_proof.items() if given not in (None, ())])
    chosen_shapes, limits = shapes(input_shapes), max_error(max_errors)
    if check and (output or reports):
        raise InputError(
            "--check together with --output or --report: it writes nothing; drop one or the other"
        )
    external = is_external(external_data=external_data, inline=inline, location=location)
    import onnxcast

    target = narrowing.pop("target")
    narrowing.update(
        io_types=io_types,
        inline_cast=not disable_inline_cast,
        cast_bridges=cast_bridges,
        illegal_casts=illegal_casts,
        require_exact_chains=require_exact_chains,
    )
    tasks = make_tasks(
        models, output, reports, inputs, lambda: format_name(narrowing, target, plan)
    )
    if not check:
        for task in tasks:
            check_destinations(
                task.model, task.output, task.reports, task.inputs, plan, force=force
            )
            check_data(task.output, location, external=external, force=force)
        check_tasks(tasks)

    def convert(task: Task) -> "Result":
        with spinner() as step:
            return onnxcast.optimize(
                task.model,
                target=target,
                inputs=task.inputs,
                input_shapes=chosen_shapes,
                verify_outputs=names(verify_outputs),
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

    if check:
        return check_models(tasks, convert, as_json=as_json)
    results = {task: convert(task) for task in tasks}
    files = write_results(results, force=force, external=external, location=location)
    for result in results.values():
        warn_of(result, made_up=inputs is None)
    with _printed_if_possible():
        _print(results, files, time.perf_counter() - start, as_json=as_json)
    return 0


def _print(
    results: Mapping[Task, "Result"], files: list[Path], seconds: float, *, as_json: bool
) -> None:
    """Print the reports, and where several models went."""
    from .summary import print_summary

    if as_json or len(results) > 1:
        say(f"wrote {', '.join(map(str, files))}")
    if as_json:
        reports = [result.report.to_dict() for result in results.values()]
        print_json(reports[0] if len(reports) == 1 else reports)
        return
    for task, result in results.items():
        print_summary(result.report, files if len(results) == 1 else [task.output], seconds)


def _refuse_for_proof(given: Sequence[str]) -> None:
    """Refuse options that only a proof has a use for."""
    if given:
        raise InputError(
            f"--no-verify together with {' and '.join(given)}: these are for the proof; drop one "
            "or the other"
        )


@contextlib.contextmanager
def _printed_if_possible() -> Iterator[None]:
    """The files are there by now, so results that cannot be printed are no failure."""
    try:
        yield
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):  # else whoever read our output has left
            warn(f"the results cannot be printed ({error.strerror}): the files are written")
