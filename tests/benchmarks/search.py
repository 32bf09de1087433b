"""What a search for pins costs and finds: ``python -m tests.benchmarks.search MODEL.onnx ...``.

Each model has samples beside it, in MODEL.npz. A row tells pins, seconds, and trials of those that
are allowed, at a tenth of, at, and at ten times the default tolerance, and whether pins are never
more with a larger one; how many pins could still go at the smallest budget that has any; and the
seconds of a program that does the same at the default tolerance, ours and one with
``auto_convert_mixed_precision`` of onnxconverter-common, which is stopped after ten minutes.
"""

import argparse
import math
import subprocess
import sys
import time
from pathlib import Path

import onnxcast

__all__ = ["found", "main", "needless", "program_seconds"]

TOLERANCES = {"all-fp16": 1e-2, "all": 6e-2}
STOP = 600.0

_OURS = """
import sys
import onnxcast
model, samples, limit, token = sys.argv[1:]
onnxcast.optimize(model, fp32_cast=token, inputs=samples, max_error=float(limit))
"""

_PEER = """
import sys
import numpy, onnx
from onnxconverter_common.auto_mixed_precision import auto_convert_mixed_precision
feeds = dict(numpy.load(sys.argv[2]))
limit = float(sys.argv[3])
auto_convert_mixed_precision(onnx.load(sys.argv[1]), feeds, rtol=limit, atol=limit)
"""


def found(model: Path, token: str, budget: float) -> tuple[onnxcast.Result | None, float]:
    """The result within a budget, if there is one, and the seconds it took."""
    start = time.perf_counter()
    try:
        samples = model.with_suffix(".npz")
        result = onnxcast.optimize(model, fp32_cast=token, inputs=samples, max_error=budget)
    except onnxcast.OnnxcastError:
        return None, time.perf_counter() - start
    return result, time.perf_counter() - start


def needless(model: Path, result: onnxcast.Result) -> int:
    """How many single pins could go without breaking the budget, by real models."""
    count, report = 0, result.report.to_dict()
    for gone in report["pins"]:
        rest = {**report, "pins": [pin for pin in report["pins"] if pin != gone]}
        try:
            onnxcast.optimize(model, plan=rest, inputs=model.with_suffix(".npz"))
        except onnxcast.VerificationError:
            continue
        count += 1
    return count


def program_seconds(program: str, model: Path, token: str, budget: float) -> str:
    """What a program takes to find a mixed precision within a budget."""
    samples = str(model.with_suffix(".npz"))
    arguments = [sys.executable, "-c", program, str(model), samples, str(budget), token]
    start = time.perf_counter()
    try:
        run = subprocess.run(arguments, capture_output=True, check=False, timeout=STOP, text=True)
    except subprocess.TimeoutExpired:
        return f"stopped at {STOP:.0f}"
    seconds = time.perf_counter() - start
    if run.returncode:
        last = run.stderr.strip().splitlines()[-1][:60]
        return f"failed after {seconds:.1f}: {last}"
    return f"{seconds:.1f}"


def row(model: Path, token: str, *, minimal: bool, peer: bool) -> str:
    """One line of the table."""
    cells, counts, left = [], [], ""
    for by in (0.1, 1, 10):
        result, seconds = found(model, token, by * TOLERANCES[token])
        search = None if result is None else result.report.search
        pins = math.inf if result is None else len(result.report.to_dict()["pins"])
        counts.append(pins)
        trials = "" if search is None else f" {search.trials}/{search.trial_bound:.0f}"
        cells.append(f"{'refused' if result is None else pins} in {seconds:.1f} s{trials}")
        if minimal and result is not None and pins and not left:
            left = str(needless(model, result))
    cells.append("yes" if counts == sorted(counts, reverse=True) else "no")
    cells.append(left or "-")
    programs = (_OURS, _PEER) if peer else ()
    cells += [program_seconds(each, model, token, TOLERANCES[token]) for each in programs]
    return " | ".join((model.stem, token, *cells))


def main(argv: list[str] | None = None) -> int:
    """Print a row per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--token", default="all-fp16", choices=TOLERANCES)
    parser.add_argument("--minimal", action="store_true", help="try each pin without the others")
    parser.add_argument("--peer", action="store_true", help="time onnxconverter-common as well")
    chosen = parser.parse_args(argv)
    head = "model | token | 0.1x | 1x | 10x | monotone | needless"
    sys.stdout.write(head + (" | ours | onnxconverter-common" if chosen.peer else "") + "\n")
    for model in chosen.models:
        line = row(model, chosen.token, minimal=chosen.minimal, peer=chosen.peer)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
