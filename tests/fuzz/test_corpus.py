"""What fuzzing found, once more, and a short walk of the mutations from every seed."""

import random
import warnings
from pathlib import Path

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import operator_suite, seeds
from tests.fuzz.target import convert

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.onnx"))
STEPS = 120


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) >= 12


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_found_is_mended(tmp_path: Path, path: Path) -> None:
    convert(path.read_bytes(), tmp_path)


def test_every_seed_is_a_model(tmp_path: Path) -> None:
    for data in seeds():
        why = convert(data, tmp_path)
        # A token or a target may not suit it, but nothing is wrong with the file itself.
        assert "model.onnx" not in why


def test_mutations_are_converted_or_refused(tmp_path: Path) -> None:
    rng, outcomes = random.Random(0), set()
    warnings.simplefilter("ignore")
    pool = [*seeds(), *operator_suite()]
    for _ in range(STEPS):
        data = mutated(rng.choice(pool), rng)
        if data is not None:
            outcomes.add(convert(data, tmp_path) == "")
    assert outcomes == {True, False}


def test_mutations_repeat_by_their_seed() -> None:
    data = next(seeds())
    assert mutated(data, random.Random(3)) == mutated(data, random.Random(3))
    assert mutated(b"no model", random.Random(3)) is None
