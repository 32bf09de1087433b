import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.files import NarrowedTensor, chunks, weight_range, weights

NARROW = [
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT8E4M3FN,
    ir.DataType.FLOAT8E5M2,
]
CHUNK = 64
"""Elements in a chunk, in tests."""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", CHUNK * 4)


def numbers(size: int) -> np.ndarray:
    generator = np.random.default_rng(size)
    return (generator.standard_normal(size) * 10.0 ** generator.integers(-9, 6, size)).astype("f4")


def external(values: np.ndarray, folder: Path, offset: int) -> ir.ExternalTensor:
    (folder / "w.data").write_bytes(b"#" * offset + values.tobytes() + b"tail")
    return ir.ExternalTensor(
        "w.data",
        offset,
        values.nbytes,
        ir.DataType.from_numpy(values.dtype),
        shape=ir.Shape(values.shape),
        name="w",
        base_dir=folder,
    )


def inline(values: np.ndarray, _folder: Path, _offset: int) -> ir.TensorProtocol:
    return ir.tensor(values, name="w")


def proto(values: np.ndarray, _folder: Path, _offset: int) -> ir.TensorProtocol:
    return ir.serde.deserialize_tensor(ir.to_proto(ir.tensor(values, name="w")))


def lazy(values: np.ndarray, _folder: Path, _offset: int) -> ir.TensorProtocol:
    shape = ir.Shape(values.shape)
    return ir.LazyTensor(lambda: ir.tensor(values), ir.DataType.FLOAT, shape, name="w")


Make = Callable[[np.ndarray, Path, int], ir.TensorProtocol]
KINDS = pytest.mark.parametrize("make", [inline, proto, lazy, external])
SIZES = pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3])


@KINDS
@SIZES
@pytest.mark.parametrize("offset", [0, 7])
def test_chunks_are_the_tensor_in_bounded_pieces(
    make: Make, size: int, offset: int, tmp_path: Path
) -> None:
    values = numbers(size)
    pieces = list(chunks(make(values, tmp_path, offset)))
    assert all(0 < piece.size <= CHUNK and piece.ndim == 1 for piece in pieces)
    assert np.array_equal(np.concatenate([np.array([], "f4"), *pieces]), values)


@KINDS
@SIZES
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrowed_equals_narrowing_at_once(
    make: Make, size: int, dtype: ir.DataType, tmp_path: Path
) -> None:
    values = numbers(size)
    expected = formats.to_storage(values, formats.of(dtype)).tobytes()
    tensor = NarrowedTensor(make(values, tmp_path, 7), dtype)
    file = io.BytesIO()
    tensor.tofile(file)
    assert file.getvalue() == expected
    assert tensor.tobytes() == expected
    assert tensor.numpy().tobytes() == expected
    assert np.asarray(tensor).dtype == dtype.numpy()
    assert b"".join(piece.tobytes() for piece in chunks(tensor)) == expected


def test_narrowed_keeps_shape_name_and_doc(tmp_path: Path) -> None:
    source = external(numbers(12).reshape(3, 4), tmp_path, 0)
    source.doc_string = "doc"
    source.metadata_props["key"] = "value"
    tensor = NarrowedTensor(source, ir.DataType.FLOAT16)
    assert (tensor.name, tensor.doc_string, tensor.metadata_props) == ("w", "doc", {"key": "value"})
    assert tensor.numpy().shape == (3, 4)
    assert NarrowedTensor(source, ir.DataType.FLOAT16, "other").name == "other"
    tensor.name = "renamed"
    assert source.name == "w"


def test_narrowed_is_described_without_reading() -> None:
    absent = ir.ExternalTensor(
        "none", 0, None, ir.DataType.FLOAT, shape=ir.Shape([3, 5]), name="w", base_dir="/nowhere"
    )
    tensor = NarrowedTensor(absent, ir.DataType.BFLOAT16)
    assert (tensor.dtype, tensor.shape.numpy(), tensor.size) == (ir.DataType.BFLOAT16, (3, 5), 15)
    assert tensor.nbytes == 30
    assert "BFLOAT16,[3,5]" in repr(tensor)


def test_narrowed_scalar_keeps_rank_0() -> None:
    tensor = NarrowedTensor(ir.tensor(np.float32(1.5)), ir.DataType.FLOAT16)
    assert tensor.numpy().shape == ()
    assert tensor.numpy() == 1.5


def test_narrowed_float64_is_rounded_once() -> None:
    # Halfway between two float16 but for the last bit, which float32 would lose.
    value = 1 + 2.0**-11 + 2.0**-40
    tensor = NarrowedTensor(ir.tensor(np.array([value])), ir.DataType.FLOAT16)
    assert tensor.numpy()[0] == 1 + 2.0**-10


def test_narrowed_serialises_as_an_ordinary_tensor() -> None:
    values = np.linspace(-2, 2, 100, dtype=np.float32)
    tensor = ir.to_proto(NarrowedTensor(ir.tensor(values, name="w"), ir.DataType.FLOAT16))
    assert tensor.raw_data == values.astype(np.float16).tobytes()
    assert (tensor.name, tensor.data_type, list(tensor.dims)) == ("w", 10, [100])


def test_external_source_is_not_mapped(tmp_path: Path) -> None:
    source = external(numbers(500), tmp_path, 7)
    NarrowedTensor(source, ir.DataType.FLOAT16).tofile(io.BytesIO())
    weight_range(source)
    assert source.raw is None


@pytest.mark.parametrize("dtype", [ir.DataType.INT4, ir.DataType.FLOAT])
def test_external_bytes_are_copied_as_they_are(tmp_path: Path, dtype: ir.DataType) -> None:
    content = np.random.default_rng(0).bytes(1000)
    (tmp_path / "w.data").write_bytes(b"####" + content)
    shape = ir.Shape([1000 * 8 // dtype.bitwidth])
    tensor = ir.ExternalTensor("w.data", 4, 1000, dtype, shape=shape, name="w", base_dir=tmp_path)
    file = io.BytesIO()
    weights.write_bytes(tensor, file)
    assert file.getvalue() == content


def test_external_data_that_ends_early_or_is_gone_is_an_input_error(tmp_path: Path) -> None:
    tensor = external(numbers(300), tmp_path, 0)
    with open(tmp_path / "w.data", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=r"ends \d+ bytes before the data of 'w'"):
        list(chunks(tensor))
    (tmp_path / "w.data").unlink()
    with pytest.raises(InputError, match=r"cannot be read \(No such file"):
        list(chunks(tensor))
