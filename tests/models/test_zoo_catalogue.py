import re
from pathlib import Path

from onnxcast.policy import TOKENS, make_policy
from onnxcast_models.catalogue import CATALOGUE, Packaged, Wheel
from onnxcast_models.fetch import fetch, packaged_samples
from onnxcast_models.runner import MODES


def test_names_are_unique_and_fit_file_names() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)


def test_every_model_has_a_licence_that_can_be_passed_on() -> None:
    assert {entry.licence for entry in CATALOGUE} <= {"MIT", "Apache-2.0", "CC-BY-4.0"}


def test_wheels_are_pinned_and_their_members_hashed() -> None:
    for entry in CATALOGUE:
        if isinstance(entry.origin, Wheel):
            assert re.fullmatch(r"\d+(\.\d+)+", entry.origin.version)
            assert re.fullmatch(r"[0-9a-f]{64}", entry.origin.sha256)


def test_packaged_models_and_samples_are_there(tmp_path: Path) -> None:
    packaged = [entry for entry in CATALOGUE if isinstance(entry.origin, Packaged)]
    assert packaged
    for entry in packaged:
        samples = packaged_samples(entry)
        assert fetch(entry, tmp_path).is_file()
        assert samples is not None
        assert samples.is_file()


def test_modes_are_the_tokens_each_once() -> None:
    assert set(MODES) == {make_policy(fp32_cast=token).token for token in TOKENS}
    assert len(set(MODES)) == len(MODES)
