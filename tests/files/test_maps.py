"""Models that give maps (ZipMap): read, converted and written with their types as they were."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxcast
from onnxcast.errors import InputError
from onnxcast.files import from_proto, read_model, to_proto
from onnxcast.files.maps import put_back

SAMPLE = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


def map_type(key: int) -> onnx.TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))


def classifier(key: int = TensorProto.INT64) -> onnx.ModelProto:
    """softmax(x @ w) as a map from labels to probabilities for each row, and as a tensor."""
    labels = helper.make_attribute("classlabels_int64s", [7, 8, 9])
    if key == TensorProto.STRING:
        labels = helper.make_attribute("classlabels_strings", ["a", "b", "c"])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"]),
        helper.make_node("ZipMap", ["p"], ["y"], domain="ai.onnx.ml"),
    ]
    nodes[-1].attribute.append(labels)
    weights = np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)
    outputs = [
        helper.make_value_info("y", helper.make_sequence_type_proto(map_type(key))),
        helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 3]),
    ]
    outputs[0].doc_string = "by label"
    outputs[0].metadata_props.add(key="of", value="the author")
    return helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
            outputs,
            [numpy_helper.from_array(weights, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 1)],
        ir_version=10,
    )


def in_memory(model: onnx.ModelProto, _folder: Path) -> object:
    return model


def on_disk(model: onnx.ModelProto, folder: Path) -> object:
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def as_ir(model: onnx.ModelProto, _folder: Path) -> object:
    return read_model(model).model


def rows(model: onnx.ModelProto) -> list[dict[object, float]]:
    import onnxruntime as ort

    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(["y"], {"x": SAMPLE})[0])


@pytest.mark.parametrize("key", [TensorProto.INT64, TensorProto.STRING])
@pytest.mark.parametrize("token", ["none", "all-fp16"])
@pytest.mark.parametrize("given", [in_memory, on_disk, as_ir])
def test_types_of_outputs_stay_and_the_result_runs(
    tmp_path: Path, given: Callable[[onnx.ModelProto, Path], object], token: str, key: int
) -> None:
    before = classifier(key)
    result = onnxcast.optimize(given(before, tmp_path), fp32_cast=token, inputs={"x": SAMPLE})
    assert before == classifier(key), "the caller's model is never changed"
    result.save(tmp_path / "out.onnx")
    for after in (onnx.load(tmp_path / "out.onnx"), result.to_proto()):
        assert list(after.graph.output) == list(before.graph.output)
        onnx.checker.check_model(after, full_check=True)
        for found, wanted in zip(rows(after), rows(before), strict=True):
            assert list(found) == list(wanted)
            # The default tolerance of float16, relative to probabilities of at most 1.
            assert list(found.values()) == pytest.approx(list(wanted.values()), abs=1e-2)
    narrow = TensorProto.FLOAT if token == "none" else TensorProto.FLOAT16
    assert {tensor.data_type for tensor in after.graph.initializer} == {narrow}


def value_info(type_: onnx.TypeProto) -> onnx.ModelProto:
    """A model with `type_` as its input, its output and between them, in the graph and a branch."""
    held = helper.make_node("Identity", ["x"], ["held"])
    inner = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["inner"])],
        "branch",
        [],
        [helper.make_value_info("inner", type_)],
    )
    branch = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    inputs = [
        helper.make_value_info("x", type_),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph([held, branch], "g", inputs, [helper.make_value_info("y", type_)])
    graph.value_info.append(helper.make_value_info("held", type_))
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(
    "type_",
    [
        map_type(TensorProto.INT64),
        helper.make_sequence_type_proto(map_type(TensorProto.STRING)),
        helper.make_optional_type_proto(helper.make_sequence_type_proto(map_type(1))),
        helper.make_map_type_proto(TensorProto.INT64, map_type(TensorProto.STRING)),
    ],
    ids=["map", "sequence", "optional", "nested"],
)
def test_a_map_type_survives_wherever_it_stands(type_: onnx.TypeProto) -> None:
    before = value_info(type_)
    held = from_proto(value_info(type_))
    assert all(value.type is None for value in held.graph.outputs)
    assert to_proto(held).graph == before.graph
    assert to_proto(held.clone()).graph == before.graph


def test_other_types_are_left_to_onnx_ir() -> None:
    before = value_info(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])))
    held = from_proto(value_info(before.graph.output[0].type))
    assert isinstance(held.graph.outputs[0].type, ir.SequenceType)
    assert to_proto(held).graph == ir.to_proto(ir.from_proto(before)).graph


def keyed(text: str) -> onnx.ModelProto:
    model = classifier()
    model.graph.value_info.add(name="m").metadata_props.add(key="onnxcast.map_type", value=text)
    return model


def test_what_keeps_the_types_is_not_read_from_a_file() -> None:
    with pytest.raises(InputError, match=r"'m' has metadata onnxcast.map_type, which only a model"):
        from_proto(keyed("CAE="))


@pytest.mark.parametrize("text", ["no base 64", "é", "AAAA"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"'m' has metadata onnxcast.map_type, which is no type"):
        put_back(keyed(text))
