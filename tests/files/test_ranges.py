"""Weights are measured as numpy would, one by one or many together."""

import math
from pathlib import Path

import hypothesis
import hypothesis.extra.numpy as arrays
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.files import WeightRange, measure_small, weight_range, weights
from onnxcast.files.stored import StoredTensor
from tests.files.test_weights import CHUNK, Make, external, inline, lazy, numbers, proto


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", CHUNK * 4)


def stored(values: np.ndarray) -> StoredTensor:
    return StoredTensor(onnx.numpy_helper.from_array(values, "w"))


@pytest.mark.parametrize("make", [inline, proto, lazy, external])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], WeightRange(0.0, math.inf, False)),
        ([0.0, -0.0], WeightRange(0.0, math.inf, False)),
        ([0.0, -3.0, 0.25], WeightRange(3.0, 0.25, False)),
        ([math.inf, math.nan, -math.inf], WeightRange(0.0, math.inf, True)),
        ([math.nan, -2.0, 0.0], WeightRange(2.0, 2.0, True)),
        ([-math.inf, 5.0, -1e-3], WeightRange(5.0, float(np.float32(1e-3)), True)),
        ([-(2.0**-149), 1.0], WeightRange(1.0, 2.0**-149, False)),
        ([-(2.0**127), 2.0**126], WeightRange(2.0**127, 2.0**126, False)),
    ],
)
def test_weight_range(
    make: Make, values: list[float], expected: WeightRange, tmp_path: Path
) -> None:
    assert weight_range(make(np.array(values, "f4"), tmp_path, 7)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_weight_range_equals_the_plain_computation_over_many_chunks(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = generator.integers(0, 2**32, 10 * CHUNK + 5, dtype=np.uint32).view(np.float32)
    values[generator.integers(0, values.size, 50)] = 0
    finite = np.abs(values[np.isfinite(values)])
    found = weight_range(ir.tensor(values))
    assert found.finite_absmax == finite.max()
    assert found.smallest_nonzero == finite[finite > 0].min()
    assert found.has_nonfinite == (finite.size < values.size)


def test_weight_range_leaves_the_tensor_alone() -> None:
    values = numbers(200).reshape(10, 20)
    before = values.copy()
    weight_range(ir.tensor(values.T))
    assert np.array_equal(values, before)


def test_a_tensor_in_a_file_is_measured_once(tmp_path: Path) -> None:
    tensor = external(numbers(1000), tmp_path, 0)
    measured = weight_range(tensor)
    (tmp_path / "w.data").unlink()
    assert weight_range(tensor) == measured


def test_a_tensor_in_memory_is_measured_as_it_is() -> None:
    values = numbers(1000)
    tensor = ir.tensor(values)
    weight_range(tensor)
    values[0] = 1e30
    assert weight_range(tensor).finite_absmax == np.float32(1e30)
    assert not tensor.meta


BITS = arrays.arrays(np.uint32, hypothesis.strategies.integers(1, 9))


@hypothesis.given(hypothesis.strategies.lists(BITS, max_size=9))
def test_small_tensors_are_measured_together_as_they_are_alone(bits: list[np.ndarray]) -> None:
    tensors = [stored(each.view(np.float32)) for each in bits]
    measure_small(tensors)
    for tensor, each in zip(tensors, bits, strict=True):
        assert tensor.measured is not None
        assert weight_range(tensor) == weight_range(ir.tensor(each.view(np.float32)))


def test_any_number_of_small_tensors_are_measured_together() -> None:
    tensors = [stored(np.array([index, -1], np.float32)) for index in range(3000)]
    measure_small(tensors)
    assert [weight_range(each).finite_absmax for each in tensors] == [1, *range(1, 3000)]


def test_what_is_large_empty_or_not_float32_waits_until_it_is_asked_for() -> None:
    tensors = [
        stored(np.ones(2000, np.float32)),
        stored(np.ones(0, np.float32)),
        stored(np.ones(2, np.int64)),
    ]
    measure_small([*tensors, ir.tensor(np.ones(2, np.float32)), None])
    assert [each.measured for each in tensors] == [None, None, None]
    assert weight_range(tensors[0]) == WeightRange(1.0, 1.0, False)
    assert tensors[0].measured is not None
