from pathlib import Path

import numpy as np
import pytest

from onnxcast import InputError
from onnxcast_models.subjects import find_subjects, subject_of


def test_models_of_a_folder_have_their_samples_in_order_and_their_labels(tmp_path: Path) -> None:
    for name in ("b.onnx", "a.onnx", "a.npz", "a.10.npz", "a.2.npz", "a.labels.npz", "a.x.npz"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "aa.npz").write_bytes(b"")
    one, two = find_subjects(tmp_path)
    assert (one.name, two.name) == ("a", "b")
    assert [path.name for path in one.samples] == ["a.npz", "a.2.npz", "a.10.npz"]
    assert one.labels == tmp_path / "a.labels.npz"
    assert (two.samples, two.labels) == ((), None)


def test_data_sets_beside_a_lone_model_are_its_samples(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    for k in (10, 2, 0):
        (tmp_path / f"test_data_set_{k}").mkdir()
    (subject,) = find_subjects(tmp_path)
    assert [path.name for path in subject.samples] == [
        "test_data_set_0",
        "test_data_set_2",
        "test_data_set_10",
    ]
    (tmp_path / "other.onnx").write_bytes(b"")
    assert [subject.samples for subject in find_subjects(tmp_path)] == [(), ()]


def test_folders_of_the_model_zoo_are_models(tmp_path: Path) -> None:
    (tmp_path / "resnet" / "test_data_set_0").mkdir(parents=True)
    (tmp_path / "resnet" / "model.onnx").write_bytes(b"")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "copy.onnx").write_bytes(b"")
    (subject,) = find_subjects(tmp_path)
    assert subject.name == "resnet"
    assert [path.name for path in subject.samples] == ["test_data_set_0"]


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.onnx file in it"):
        find_subjects(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        find_subjects(tmp_path / "none")


def test_samples_of_another_folder_come_first(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in (tmp_path / "a.onnx", tmp_path / "a.npz", tmp_path / "b.onnx", tmp_path / "b.npz"):
        path.write_bytes(b"")
    (other / "a.npz").write_bytes(b"")
    assert subject_of(tmp_path / "a.onnx", "a", samples=other).samples == (other / "a.npz",)
    assert subject_of(tmp_path / "b.onnx", "b", samples=other).samples == (tmp_path / "b.npz",)


def test_the_digest_is_that_of_the_model_and_its_samples(folder: Path) -> None:
    def digests() -> list[str]:
        return [subject.digest for subject in find_subjects(folder)]

    before = digests()
    assert len(set(before)) == 2
    assert digests() == before
    np.savez(folder / "product.1.npz", x=np.zeros((1, 3), np.float32))
    assert [a == b for a, b in zip(digests(), before, strict=True)] == [False, True]
    (folder / "round_trip.npz").unlink()
    assert digests()[1] != before[1]
