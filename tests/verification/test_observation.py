"""Values inside a model are seen as outputs for a while, and the model is as it was afterwards."""

import pathlib
from collections.abc import Iterator

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.graph.types import ElementTypes
from onnxcast.verification.observation import inner_values, observe, observed_types
from onnxcast.verification.session import RuntimeFailure, Worker
from onnxcast.verification.values import Feeds

HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "custom": 1]>'
TEXT = """g (float[N] x) => (float[N] y) {
    h = Add (x, x) i = Cast <to = 7> (h) s = SequenceConstruct (x, h) y = Neg (h)
}"""
SAMPLES: list[Feeds] = [{"x": np.array([1.5], np.float32)}, {"x": np.array([2, 3], np.float32)}]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def load(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER + text))


def bytes_of(model: ir.Model) -> bytes:
    found: bytes = ir.to_proto(model).SerializeToString(deterministic=True)
    return found


def test_values_come_by_name_with_their_content_for_each_sample(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = load(TEXT)
    seen = dict(observe(model, ["y", "i", "h"], SAMPLES, worker, tmp_path))
    assert list(seen) == ["y", "i", "h"]
    assert [np.asarray(value).tolist() for value in seen["h"]] == [[3], [4, 6]]
    assert [np.asarray(value).tolist() for value in seen["i"]] == [[3], [4, 6]]
    assert [np.asarray(value).tolist() for value in seen["y"]] == [[-3], [-4, -6]]


def test_the_model_is_as_it_was(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load(TEXT)
    before = bytes_of(model)
    list(observe(model, ["h", "i", "s"], SAMPLES, worker, tmp_path))
    assert bytes_of(model) == before


def test_the_model_is_as_it_was_after_a_failure(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = load("g (float[N] x) => (float[N] y) { h = custom.Foo (x) y = Neg (h) }")
    before = bytes_of(model)
    with pytest.raises(RuntimeFailure, match="Foo"):
        list(observe(model, ["h"], SAMPLES, worker, tmp_path))
    assert bytes_of(model) == before


def test_inner_values_are_those_of_the_main_graphs_nodes_in_order() -> None:
    model = load(
        """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
            h = Add (x, w)
            y = If (c) <
                then_branch = then () => (float[2] t) { u = Neg (h) t = Abs (u) },
                else_branch = other () => (float[2] e) { e = Neg (h) }
            >
        }"""
    )
    assert list(inner_values(model)) == ["h", "y"]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("com.microsoft.Inverse (x)", ir.DataType.FLOAT),
        ("com.microsoft.Inverse (x16)", ir.DataType.FLOAT16),
        ("com.microsoft.QuantizeLinear (x, k, z)", ir.DataType.UINT8),
    ],
)
def test_types_of_ops_without_a_schema_are_learned(
    op: str, wanted: ir.DataType, worker: Worker
) -> None:
    model = load(
        f"""g (float[2,2] x) => (float[2,2] y) <float k = {{0.5}}, uint8 z = {{3}}> {{
            x16 = Cast <to = 10> (x) h = {op} y = Cast <to = 1> (h)
        }}"""
    )
    value = inner_values(model)["h"]
    assert ElementTypes(model).of(value) is None
    observed_types(model, ["h"], [{"x": np.eye(2, dtype=np.float32)}], worker)
    assert value.type is None, "what is learned is not declared"
    assert ElementTypes(model).dtype(value) == wanted


def test_what_is_no_tensor_stays_without_a_type(worker: Worker) -> None:
    model = load(TEXT)
    value = inner_values(model)["s"]
    before = ElementTypes(model).of(value)
    observed_types(model, ["s"], SAMPLES, worker)
    assert ElementTypes(model).of(value) == before
