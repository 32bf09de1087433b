"""Fuzz for a while: ``python -m tests.fuzz --minutes 30``.

Begins with the seeds, the operator suite and what earlier runs kept in ``build/fuzz``. A finding
ends the run and is left there as ``crash-*``; mend it, and add the file to ``tests/fuzz/corpus``.
"""

import argparse
import hashlib
import random
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["onnxcast", "onnx_ir"]):
    from tests.fuzz.target import convert

from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import operator_suite, seeds

_CORPUS = Path(__file__).with_name("corpus")
_LARGEST = 20_000
_RAW = 0.2


def _mutate(data: bytes, largest: int, seed: int) -> bytes:
    rng = random.Random(seed)
    found = None if rng.random() < _RAW else mutated(data, rng)
    if found is None or len(found) > largest:
        return bytes(atheris.Mutate(data, largest))
    return found


def _fill(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kept = (path.read_bytes() for path in sorted(_CORPUS.glob("*.onnx")))
    for data in (*seeds(), *operator_suite(), *kept):
        (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def main() -> None:
    """Run libFuzzer, which ends the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    chosen = parser.parse_args()
    corpus = chosen.folder / "corpus"
    _fill(corpus)
    warnings.simplefilter("ignore")
    place = tempfile.TemporaryDirectory(prefix="onnxcast-fuzz-")

    def test_one(data: bytes) -> None:
        convert(data, Path(place.name))

    limits = [
        f"-max_total_time={int(60 * chosen.minutes)}",
        f"-max_len={_LARGEST}",
        "-timeout=60",
        "-rss_limit_mb=6000",
        "-print_final_stats=1",
        f"-artifact_prefix={chosen.folder}/",
    ]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], test_one, custom_mutator=_mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
