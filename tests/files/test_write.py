import hashlib
import os
import re
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxcast.errors import InputError, RefusedError
from onnxcast.files import (
    NarrowedTensor,
    check_output,
    commit,
    data,
    default_output,
    layout,
    read_model,
    weights,
    write,
)

ROWS = 40


def matrix(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, ROWS)).astype(np.float32)


def proto(seed: int = 0) -> onnx.ModelProto:
    """Make y = (x @ a + c) @ b + d with a, b, c large; c is a Constant, b in a function."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    held_b = numpy_helper.from_array(matrix(seed + 1), "b")
    body = [
        helper.make_node("Constant", [], ["b"], value=held_b),
        helper.make_node("MatMul", ["h", "b"], ["r"]),
    ]
    function = helper.make_function("f", "F", ["h"], ["r"], body, opsets[:1])
    held_c = numpy_helper.from_array(matrix(seed + 2), "")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=held_c),
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("Add", ["p", "c"], ["q"]),
        helper.make_node("F", ["q"], ["r"], domain="f"),
        helper.make_node("Add", ["r", "d"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, ROWS]) for name in "xy")
    tensors = [
        numpy_helper.from_array(matrix(seed), "a"),
        numpy_helper.from_array(np.array([0.5], np.float32), "d"),
    ]
    return helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], tensors),
        opset_imports=opsets,
        functions=[function],
        ir_version=10,
    )


def model(seed: int = 0) -> ir.Model:
    return ir.from_proto(proto(seed))


def run(path: Path) -> np.ndarray:
    import onnxruntime as ort

    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": matrix(9)})[0])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class BrokenTensor(ir.Tensor[np.ndarray]):
    """Fails when it is read, which is after those before it are written."""

    error: BaseException

    def numpy(self) -> np.ndarray:
        raise self.error


def broken(error: BaseException) -> ir.Model:
    result = model(5)
    tensor = BrokenTensor(matrix(5), name="a")
    tensor.error = error
    result.graph.initializers["a"].const_value = tensor
    return result


def test_default_output_lies_beside_the_model() -> None:
    assert default_output(Path("a/net.v2.onnx"), "fp16") == Path("a/net.v2.fp16.onnx")


def test_output_that_is_the_input_needs_force(tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    source.touch()
    (tmp_path / "link.onnx").symlink_to(source)
    os.link(source, tmp_path / "hard.onnx")
    (tmp_path / "sub").mkdir()
    roundabout = tmp_path / "sub" / ".." / "m.onnx"
    for output in (source, tmp_path / "link.onnx", tmp_path / "hard.onnx", roundabout):
        with pytest.raises(InputError, match="is the input itself"):
            check_output(output, source, force=False)
        check_output(output, source, force=True)


def test_output_must_be_a_file_in_a_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="a directory"):
        check_output(tmp_path, None, force=True)
    with pytest.raises(InputError, match=r"no folder .*none; wanted one"):
        check_output(tmp_path / "none" / "m.onnx", None, force=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="not writable"):
        check_output(tmp_path / "m.onnx", None, force=True)


def test_special_files_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for output in (tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(InputError, match="not a regular file"):
            check_output(output, None, force=True)
        with pytest.raises(InputError, match="not a regular file"):
            commit(model(), output)
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["link", "pipe"]


def test_output_that_exists_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "old.onnx").touch()
    check_output(tmp_path / "old.onnx", tmp_path / "m.onnx", force=False)
    check_output(tmp_path / "new.onnx", None, force=False)


@pytest.mark.parametrize("external", [None, False])
def test_small_model_is_one_file(tmp_path: Path, external: bool | None) -> None:
    output = tmp_path / "m.onnx"
    assert commit(model(), output, external=external) == [output]
    assert names(tmp_path) == ["m.onnx"]
    assert onnx.load(output) == ir.to_proto(model())


def test_external_model_is_valid_and_runs_the_same(tmp_path: Path) -> None:
    commit(model(), tmp_path / "inline.onnx")
    output, data = commit(model(), tmp_path / "m.fp16.onnx", external=True)
    onnx.checker.check_model(output, full_check=True)
    assert np.array_equal(run(output), run(tmp_path / "inline.onnx"))
    assert data.stat().st_size >= 3 * ROWS * ROWS * 4
    assert output.stat().st_size < 2000
    loaded = onnx.load(output)
    assert numpy_helper.to_array(loaded.graph.initializer[1]) == 0.5


def test_data_file_is_named_by_its_hash_and_aligned(tmp_path: Path) -> None:
    given = model()
    odd = ir.tensor(np.arange(1025, dtype=np.uint16).astype(np.uint8), name="odd")
    given.graph.initializers["d"].const_value = odd
    output, data = commit(given, tmp_path / "m.fp16.onnx", external=True)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert data.name == f"m.fp16.{digest[:8]}.data"
    bare = onnx.load(output, load_external_data=False)
    held = [*bare.graph.initializer, bare.functions[0].node[0].attribute[0].t]
    lengths = []
    for tensor in held:
        places = {entry.key: entry.value for entry in tensor.external_data}
        assert places["location"] == data.name
        assert int(places["offset"]) % 64 == 0
        lengths.append(int(places["length"]))
    assert sorted(lengths) == [1025, ROWS * ROWS * 4, ROWS * ROWS * 4]


def test_attributes_of_other_ops_stay_inline(tmp_path: Path) -> None:
    given = model()
    given.graph[0].domain = "mine"
    given.opset_imports["mine"] = 1
    output, _ = commit(given, tmp_path / "m.onnx", external=True)
    node = onnx.load(output, load_external_data=False).graph.node[0]
    assert node.attribute[0].t.data_location == TensorProto.DEFAULT


def test_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for external in (False, True):
            commit(model(), tmp_path / folder / f"{external}.onnx", external=external)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    commit(model(), tmp_path / "one" / "True.onnx", external=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_tied_tensors_are_stored_once(tmp_path: Path) -> None:
    given = model()
    held = given.graph.initializers["a"].const_value
    given.graph.initializers.pop("d")
    given.graph.register_initializer(ir.Value(name="tied", const_value=held))
    output, data = commit(given, tmp_path / "m.onnx", external=True)
    assert data.stat().st_size == 3 * ROWS * ROWS * 4
    _, tied = onnx.load(output).graph.initializer
    assert tied.name == "tied"
    assert np.array_equal(numpy_helper.to_array(tied), matrix(0))


def test_external_source_makes_an_external_result(tmp_path: Path) -> None:
    onnx.save(
        proto(),
        tmp_path / "s.onnx",
        save_as_external_data=True,
        location="s.data",
        convert_attribute=True,
        size_threshold=0,
    )
    source = read_model(tmp_path / "s.onnx").model
    output, data = commit(source, tmp_path / "m.onnx")
    assert data.name.startswith("m.")
    (tmp_path / "s.data").unlink()
    assert np.array_equal(run(output), run(commit(model(), tmp_path / "inline.onnx")[0]))
    small = onnx.load(output, load_external_data=False).graph.initializer[1]
    assert small.data_location == TensorProto.DEFAULT
    assert numpy_helper.to_array(small) == 0.5


def test_external_source_can_be_made_inline(tmp_path: Path) -> None:
    commit(model(), tmp_path / "s.onnx", external=True)
    source = read_model(tmp_path / "s.onnx").model
    assert len(commit(source, tmp_path / "m.onnx", external=False)) == 1
    commit(model(), tmp_path / "inline.onnx")
    assert onnx.load(tmp_path / "m.onnx") == onnx.load(tmp_path / "inline.onnx")


def test_narrowed_weights_stream_from_the_source_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", 1000)
    commit(model(), tmp_path / "s.onnx", external=True)
    source = read_model(tmp_path / "s.onnx").model
    value = source.graph.initializers["a"]
    held = value.const_value
    assert isinstance(held, ir.ExternalTensor)
    value.const_value = NarrowedTensor(held, ir.DataType.FLOAT16)
    output, _ = commit(source, tmp_path / "m.onnx")
    assert held.raw is None
    written = numpy_helper.to_array(onnx.load(output).graph.initializer[0])
    assert np.array_equal(written, matrix(0).astype(np.float16))


def test_data_is_sent_to_the_disk_piece_by_piece_where_that_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = commit(model(), tmp_path / "m.onnx", external=True)[1].read_bytes()
    sent = []

    def advise(descriptor: int, offset: int, length: int, _advice: int) -> None:
        assert offset + length == os.fstat(descriptor).st_size
        sent.append((offset, length))
        raise OSError("not on this file system")

    monkeypatch.setattr(data, "_WRITEBACK_BYTES", ROWS * ROWS)
    monkeypatch.setattr(os, "posix_fadvise", advise, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    assert commit(model(), tmp_path / "refused.onnx", external=True)[1].read_bytes() == plain
    assert sent == [(start * ROWS * ROWS * 4, ROWS * ROWS * 4) for start in range(3)]
    monkeypatch.delattr(os, "posix_fadvise")
    assert commit(model(), tmp_path / "unknown.onnx", external=True)[1].read_bytes() == plain


def test_model_is_not_changed(tmp_path: Path) -> None:
    commit(model(), tmp_path / "s.onnx", external=True)
    for given in (model(), read_model(tmp_path / "s.onnx").model):
        before = ir.to_proto(given)
        constant = given.graph[0].attributes["value"]
        held = [value.const_value for value in given.graph.initializers.values()]
        for external in (True, False):
            commit(given, tmp_path / "m.onnx", external=external)
            now = [value.const_value for value in given.graph.initializers.values()]
            assert all(a is b for a, b in zip(now, held, strict=True))
            assert given.graph[0].attributes["value"] is constant
            assert ir.to_proto(given) == before


ERRORS = [
    (OSError(28, "No space left on device"), RefusedError),
    (InputError("source ended"), InputError),
    (KeyboardInterrupt(), KeyboardInterrupt),
]


@pytest.mark.parametrize(("error", "raised"), ERRORS)
@pytest.mark.parametrize("was_external", [True, False])
def test_failure_while_weights_are_written_leaves_the_old_model(
    tmp_path: Path, error: BaseException, raised: type[BaseException], was_external: bool
) -> None:
    commit(model(), tmp_path / "m.onnx", external=was_external)
    before = contents(tmp_path)
    given = broken(error)
    with pytest.raises(raised) as caught:
        commit(given, tmp_path / "m.onnx", external=True)
    assert contents(tmp_path) == before
    assert isinstance(given.graph.initializers["a"].const_value, BrokenTensor)
    if raised is RefusedError:
        assert "No space left on device" in str(caught.value)


@pytest.mark.parametrize("step", ["_serialized", "open_beside", "settle"])
@pytest.mark.parametrize("seed", [0, 1], ids=["same data", "other data"])
def test_failure_of_the_commit_itself_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, seed: int
) -> None:
    commit(model(), tmp_path / "m.onnx", external=True)
    before = contents(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, step, fail)
    with pytest.raises(RefusedError, match="No space left"):
        commit(model(seed), tmp_path / "m.onnx", external=True)
    assert contents(tmp_path) == before


def test_failure_of_a_tensor_that_stays_inline_is_not_hidden(tmp_path: Path) -> None:
    absent = ir.ExternalTensor(
        "none", 0, 4, ir.DataType.FLOAT, shape=ir.Shape([1]), name="d", base_dir=tmp_path
    )
    given = model()
    given.graph.initializers["d"].const_value = NarrowedTensor(absent, ir.DataType.FLOAT16)
    with pytest.raises(InputError, match="cannot be read"):
        commit(given, tmp_path / "m.onnx", external=False)
    given.graph.initializers["d"].const_value = absent
    with pytest.raises(InputError, match="cannot be read"):
        commit(given, tmp_path / "m.onnx", external=False)
    assert names(tmp_path) == []


def test_folder_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="cannot be written"):
        commit(model(), tmp_path / "none" / "m.onnx")


def test_old_data_goes_after_the_commit_and_nothing_else(tmp_path: Path) -> None:
    output, old = commit(model(0), tmp_path / "m.onnx", external=True)
    _, other = commit(model(0), tmp_path / "n.onnx", external=True)
    unrelated = tmp_path / "m.00000000.data"  # of this name, but not used by m.onnx
    unrelated.write_bytes(b"mine")
    _, new = commit(model(1), output, external=True)
    assert new != old
    assert names(tmp_path) == sorted(["m.onnx", "n.onnx", new.name, other.name, unrelated.name])
    commit(model(1), output)
    assert names(tmp_path) == sorted(["m.onnx", "n.onnx", other.name, unrelated.name])


def test_output_that_was_no_model_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("not a model")
    (tmp_path / "m.00000000.data").write_bytes(b"mine")
    commit(model(), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == ir.to_proto(model())
    assert names(tmp_path) == ["m.00000000.data", "m.onnx"]


def test_model_is_overwritten_by_its_own_conversion(tmp_path: Path) -> None:
    output, old = commit(model(), tmp_path / "m.onnx", external=True)
    expected = run(output)
    source = read_model(output).model
    for value in source.graph.initializers.values():
        assert value.const_value is not None
        narrow = NarrowedTensor(value.const_value, ir.DataType.FLOAT16)
        value.const_value = narrow
        users = list(value.uses())
        wide = ir.node("Cast", [value], attributes={"to": ir.DataType.FLOAT.value})
        source.graph.insert_before(source.graph[0], wide)
        for user, index in users:
            user.replace_input_with(index, wide.outputs[0])
        wide.outputs[0].name = f"{value.name}_wide"
        value.type = ir.TensorType(ir.DataType.FLOAT16)
    _, new = commit(source, output)
    assert names(tmp_path) == sorted(["m.onnx", new.name])
    assert new != old
    onnx.checker.check_model(output, full_check=True)
    # Weights are rounded to 11 bits; sums of 40 products.
    np.testing.assert_allclose(run(output), expected, rtol=0, atol=0.2)
    assert not np.array_equal(run(output), expected)


def test_output_that_holds_the_models_data_is_refused(tmp_path: Path) -> None:
    _, data = commit(model(), tmp_path / "s.onnx", external=True)
    source = read_model(tmp_path / "s.onnx").model
    before = contents(tmp_path)
    with pytest.raises(InputError, match="holds external data of the model"):
        commit(source, data)
    assert contents(tmp_path) == before


def test_permissions_of_the_old_file_stay(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    output, data = commit(model(), tmp_path / "m.onnx", external=True)
    usual = (tmp_path / "plain").stat().st_mode
    assert output.stat().st_mode == data.stat().st_mode == usual
    output.chmod(0o600)
    commit(model(1), output)
    assert output.stat().st_mode & 0o777 == 0o600


def test_weights_too_large_for_one_file_are_external_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_LARGEST_INLINE", 3 * ROWS * ROWS * 4)
    assert len(commit(model(), tmp_path / "m.onnx")) == 2
    monkeypatch.setattr(layout, "_LARGEST_PROTOBUF", 3 * ROWS * ROWS * 4)
    with pytest.raises(InputError, match=re.escape("allow external data")):
        commit(model(), tmp_path / "m.onnx", external=False)


def test_progress_rises_to_the_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", 1000)
    commit(model(), tmp_path / "s.onnx", external=True)
    source = read_model(tmp_path / "s.onnx").model
    seen: list[tuple[int, int]] = []
    commit(source, tmp_path / "m.onnx", progress=lambda *counts: seen.append(counts))
    total = 3 * ROWS * ROWS * 4 + 4
    assert len(seen) > 3 * ROWS * ROWS * 4 // 1000
    assert {each for _, each in seen} == {total}
    assert sorted(seen) == seen
    assert seen[-1] == (total, total)
