"""Whether placement, folding and shrinking change a bit: ``python -m tests.benchmarks.twins``.

Each model of a folder is planned for a token and placed twice (`tests.placements`); both twins run
on the sample beside the model, ``NAME.npz``, or else on a made-up one. Wanted: every bit of every
output is the same.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnxcast
from onnxcast.files import commit, read_model
from onnxcast.policy import make_policy
from onnxcast.verification.comparison import bit_equal
from onnxcast.verification.feeds import input_specs, load_feeds
from onnxcast.verification.session import RuntimeFailure, Worker
from tests.placements import fed, twins


def differing(path: Path, token: str, worker: Worker, folder: Path) -> list[str]:
    """The outputs that differ.

    Raises:
        RuntimeFailure: onnxruntime does not run one of the twins.
    """
    model = read_model(path).model
    beside = path.with_suffix(".npz")
    feeds = load_feeds(beside if beside.exists() else None, input_specs(model))
    file = folder / "twin.onnx"
    results = []
    for twin in twins(model, make_policy(fp32_cast=token)):
        sample = fed(twin, feeds)
        commit(twin, file)
        results.append(worker.run(file, sample, level="disable_all"))
    return [
        name
        for before, after in zip(*results, strict=True)
        for name, value in before.items()
        if not bit_equal(value, after[name])
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per model; 1 if the outputs of any differ or do not come."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.twins")
    parser.add_argument("models", type=Path, help="a folder of .onnx files, samples beside them")
    parser.add_argument("token", help="what is narrowed, such as all-fp16")
    given = parser.parse_args(arguments)
    failed = 0
    with Worker() as worker, tempfile.TemporaryDirectory() as folder:
        for path in sorted(given.models.glob("*.onnx")):
            try:
                names = differing(path, given.token, worker, Path(folder))
                outcome = f"differ: {', '.join(names)}" if names else "equal"
            except (RuntimeFailure, onnxcast.OnnxcastError) as failure:
                outcome = f"not compared: {failure}"
            failed += outcome != "equal"
            sys.stdout.write(f"{path.stem:<30} {outcome}\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
