"""Proofs of large models: weights stay in their files, and what there is no room for is said."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxcast
from onnxcast.errors import InputError
from onnxcast.files import NarrowedTensor, WidenedTensor, read_model
from onnxcast.verification import memory, scratch
from onnxcast.verification.mapping import mapped
from onnxcast.verification.restriction import restricted
from onnxcast.verification.scratch import place
from onnxcast.verification.session import Worker
from onnxcast.verification.twin import build_twin
from tests.files.test_layout import SIZE, numbers, write_shared

SAMPLE = {"x": np.random.default_rng(0).standard_normal((1, SIZE), np.float32)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_shared(tmp_path, {"m.onnx": "abc"})
    return tmp_path / "m.onnx"


@pytest.fixture
def every_model_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_LARGE_MODEL", 1)
    monkeypatch.setattr(scratch, "_LARGE_TENSOR", 1)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


def product(*weights: np.ndarray) -> np.ndarray:
    value = SAMPLE["x"]
    for weight in weights:
        value = value @ weight
    return value


@pytest.mark.usefixtures("every_model_large")
def test_weights_stay_in_their_file(path: Path, tmp_path: Path, worker: Worker) -> None:
    model = read_model(path).model
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    copy = tmp_path / "copy.onnx"
    place(model, copy)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before
    assert not onnx.load(copy).graph.initializer
    assert not list(tmp_path.glob("copy*.data"))
    weights = mapped(copy)
    assert all(np.array_equal(weights[letter], numbers(letter)) for letter in "abc")
    ((result,),) = (found.values() for found in worker.run(copy, [SAMPLE], level="disable_all"))
    wanted = product(*map(numbers, "abc"))
    assert isinstance(result, np.ndarray)
    found = result.astype(np.float32)
    # Sums of 64 products, in another order.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.usefixtures("every_model_large")
def test_a_sample_may_replace_a_weight(path: Path, tmp_path: Path, worker: Worker) -> None:
    model = read_model(path).model
    model.graph.inputs.append(model.graph.initializers["b"])
    copy = tmp_path / "copy.onnx"
    place(model, copy)
    feeds = {**SAMPLE, "b": np.zeros((SIZE, SIZE), np.float32)}
    ((result,),) = (found.values() for found in worker.run(copy, [feeds], level="disable_all"))
    assert not np.any(result)


def test_a_small_model_is_copied_whole(path: Path, tmp_path: Path) -> None:
    place(read_model(path).model, tmp_path / "copy.onnx")
    assert len(onnx.load(tmp_path / "copy.onnx").graph.initializer) == 3
    assert mapped(tmp_path / "copy.onnx") == {}


@pytest.mark.usefixtures("every_model_large")
def test_a_large_twin_rounds_when_it_runs(path: Path) -> None:
    result = onnxcast.optimize(path, fp32_cast="all-fp16", verify=False).model
    twin = build_twin(result)
    tensors = [value.const_value for value in twin.model.graph.initializers.values()]
    assert all(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)
    assert len(tensors) == 3


def test_a_small_twin_is_rounded_as_it_is_written(path: Path) -> None:
    result = onnxcast.optimize(path, fp32_cast="all-fp16", verify=False).model
    twin = build_twin(result)
    (first, *_) = twin.model.graph.initializers.values()
    tensor = first.const_value
    assert isinstance(tensor, WidenedTensor)
    assert isinstance(tensor.raw, NarrowedTensor)
    wanted = numbers("a").astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(tensor.numpy(), wanted)


@pytest.mark.parametrize("token", ["all-fp16", "all", "all-fp8e4", "all-fp32r", "matmult"])
def test_a_proof_is_the_same_either_way(
    path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    def proof() -> onnxcast.Result:
        return onnxcast.optimize(path, fp32_cast=token, inputs=SAMPLE, tolerance=1.0)

    small = proof().report.proof
    monkeypatch.setattr(scratch, "_LARGE_MODEL", 1)
    monkeypatch.setattr(scratch, "_LARGE_TENSOR", 1)
    large = proof().report.proof
    assert small is not None
    assert large is not None
    assert (large.ok, large.rounded, large.as_is) == (True, small.rounded, small.as_is)
    for ours, theirs in zip(large.twin_errors, small.twin_errors, strict=True):
        # Products summed in another order, by one unit in the last place of float32 each.
        assert ours.max_error == pytest.approx(theirs.max_error, rel=1e-2)


def test_a_result_without_room_is_not_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SMALL", 1)
    monkeypatch.setattr(memory, "_free_memory", lambda: 1000)
    result = onnxcast.optimize(path, fp32_cast="all-fp16", inputs=SAMPLE)
    proof = result.report.proof
    assert proof is not None
    assert proof.ok
    assert proof.twin == "ran"
    assert proof.as_is == proof.default_level
    assert proof.as_is == "not run (it needs about 0.0 GB of memory, 0.0 GB are free)"


def test_room_on_the_disk_counts_too(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = read_model(path).model
    assert memory.lacking_room(model, tmp_path) == ""
    monkeypatch.setattr(memory, "_SMALL", 1)
    assert memory.lacking_room(model, tmp_path) == ""
    monkeypatch.setattr(memory, "_free_memory", lambda: None)
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    assert memory.lacking_room(model, tmp_path).startswith("it needs 0.0 GB for a copy in")


TWO_OUTPUTS = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4] x, float[4] k) => (float[4] far, float[4] near) {
   [product] p = Mul (x, k)
   [back] far = Sub (p, x)
   [sum] near = Add (x, k)
}"""


def overflowing() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    thousand = np.full(4, 1000, np.float32)
    return onnx.parser.parse_model(TWO_OUTPUTS), {"x": thousand, "k": thousand}


def test_outputs_that_are_not_chosen_are_not_compared() -> None:
    model, sample = overflowing()
    options: dict[str, Any] = {"fp32_cast": "all-fp16", "inputs": sample, "repair": False}
    with pytest.raises(onnxcast.VerificationError, match="'far' does not match"):
        onnxcast.optimize(model, **options)
    result = onnxcast.optimize(model, verify_outputs=["near"], **options)
    proof = result.report.proof
    assert proof is not None
    assert proof.not_compared == ["far"]
    assert [error.name for error in proof.twin_errors] == ["near"]
    assert len(result.model.graph.outputs) == 2
    again = onnxcast.verify(model, result.model, inputs=sample, verify_outputs=["near"])
    assert again.ok
    assert not onnxcast.verify(model, result.model, inputs=sample).ok


def test_a_search_looks_at_the_chosen_outputs_alone() -> None:
    model, sample = overflowing()
    result = onnxcast.optimize(
        model, fp32_cast="all-fp16", inputs=sample, verify_outputs=["near"], max_error=1e-2
    )
    assert result.verified
    assert result.report.search is None or result.report.search.pins == 0


def test_what_does_not_run_is_left_out_of_every_run() -> None:
    text = """<ir_version: 8, opset_import: ["" : 11, "nobody" : 1]>
    agraph (float[4] x, float[4] k) => (float[4] far, float[4] near) {
       far = nobody.Unknown (x)
       near = Add (x, k)
    }"""
    sample = {"x": np.ones(4, np.float32), "k": np.ones(4, np.float32)}
    result = onnxcast.optimize(
        onnx.parser.parse_model(text),
        fp32_cast="all",
        inputs=sample,
        verify_outputs=["near"],
        drawing=True,
    )
    assert result.verified
    assert result.report.opset[1] != 11
    assert [layer.value for layer in result.report.layers] == ["near"]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [(["q"], "no output 'q'; the model's are far, near"), ([], "no output is named")],
)
def test_outputs_must_be_the_models(names: list[str], wanted: str) -> None:
    model, sample = overflowing()
    with pytest.raises(InputError, match=wanted):
        onnxcast.optimize(model, inputs=sample, verify_outputs=names)


def test_the_restricted_model_lacks_what_others_need() -> None:
    model, _ = overflowing()
    reduced = restricted(ir.from_proto(model), ["near"])
    assert [node.op_type for node in reduced.graph] == ["Add"]
    assert [value.name for value in reduced.graph.outputs] == ["near"]
