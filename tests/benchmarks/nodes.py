"""Seconds by the number of nodes, beside onnx_ir: ``python -m tests.benchmarks.nodes [SHAPE ...]``.

A row per shape and size: a whole optimise without verification, from file to file, in times of
what onnx_ir takes to load and save the same file in the same run; then the seconds of its longest
steps. Each figure is the least of three rounds, and of nine below 100,000 nodes. The last column
is how much more the optimise grows from the size before than that does. Wanted: 100,000 nodes
within 2.5 times, a growth of at most 1.1. What follows ``--`` goes to pytest, as in
``-- --benchmark-timer=time.process_time`` where other programs run.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.models import SHAPES

__all__ = ["main", "rows"]

_BENCHES = Path(__file__).with_name("bench_nodes.py")
_STEPS = 4


def rows(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line per shape and size, and one per way to start.

    Args:
        results: The benchmarks of a JSON file of pytest-benchmark.
    """
    least: dict[tuple[str, int, str], float] = {}
    steps: dict[tuple[str, int], dict[str, float]] = {}
    starts: dict[str, float] = {}
    for each in results:
        info, seconds = each["extra_info"], each["stats"]["min"]
        if "shape" not in info:
            starts[info["what"]] = seconds
            continue
        least[info["shape"], info["nodes"], info["what"]] = seconds
        if "seconds" in info:
            steps[info["shape"], info["nodes"]] = info["seconds"]
    yield f"{'shape':<13}{'nodes':>8}{'load + save':>13}{'optimise':>10}{'ratio':>7}{'growth':>8}"
    before: dict[str, float] = {}
    for (shape, nodes), parts in steps.items():
        base, whole = least[shape, nodes, "load + save"], least[shape, nodes, "optimise"]
        ratio = whole / base
        growth = f"{ratio / before[shape]:.2f}" if shape in before else ""
        before[shape] = ratio
        longest = sorted(parts, key=parts.__getitem__, reverse=True)[:_STEPS]
        told = ", ".join(f"{step} {parts[step]:.2f}" for step in longest)
        yield f"{shape:<13}{nodes:>8}{base:>13.2f}{whole:>10.2f}{ratio:>7.2f}{growth:>8}  {told}"
    for what, seconds in starts.items():
        yield f"onnxcast {what}: {seconds:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("shapes", nargs="*", choices=[[], *SHAPES], metavar="SHAPE")
    arguments = list(sys.argv[1:] if argv is None else argv)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    shapes = parser.parse_args(arguments[:split]).shapes
    chosen = ["-k", " or ".join([*(f"[{shape}-" for shape in shapes), "start"])] if shapes else []
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        given = [str(_BENCHES), f"--benchmark-json={record}", "--benchmark-quiet", "-q", *chosen]
        code = pytest.main([*given, *arguments[split + 1 :]])
        if code == 0:
            results = json.loads(record.read_text(encoding="utf-8"))["benchmarks"]
            sys.stdout.write("\n".join(rows(results)) + "\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
