"""The public names, and what a caller may rely on."""

import inspect
import json
import math
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

import onnxcast
import onnxcast.passes
from onnxcast.formats import FLOAT16
from onnxcast.verification.comparison import Tolerance

Sample = dict[str, np.ndarray]

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[2,8] x) => (float[2,4] y) {
   [product] h = MatMul (x, w)
   [mean] m = ReduceMean <axes = [1], keepdims = 1> (h)
   [centred] y = Sub (h, m)
}
"""


@pytest.fixture
def proto() -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(TEXT)
    weights = np.random.default_rng(0).standard_normal((8, 4), dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


@pytest.fixture
def path(proto: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    return path


@pytest.fixture
def sample() -> Sample:
    return {"x": np.random.default_rng(1).standard_normal((2, 8), dtype=np.float32)}


@pytest.fixture
def result(path: Path, sample: Sample) -> onnxcast.Result:
    return onnxcast.optimize(path, fp32_cast="all-fp16", inputs=sample)


@pytest.mark.parametrize("module", [onnxcast, onnxcast.passes], ids=lambda each: each.__name__)
def test_every_public_name_is_there_and_documented(module: types.ModuleType) -> None:
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = onnxcast.optimise


def test_importing_is_light() -> None:
    code = "import onnxcast, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"onnx", "onnxscript", "onnxruntime", "scipy"} & set(run.stdout.split())


def test_optimize_takes_the_options_by_keyword() -> None:
    parameters = inspect.signature(onnxcast.optimize).parameters
    wanted = {"fp32_cast", "scope", "dtype", "target", "keep_ops", "keep_nodes", "io_types"}
    wanted |= {"inputs", "tolerance", "verify"}
    assert wanted <= set(parameters)
    assert {parameters[name].kind for name in wanted} == {inspect.Parameter.KEYWORD_ONLY}


def test_all_four_kinds_of_model_give_the_same(
    path: Path, proto: onnx.ModelProto, sample: Sample
) -> None:
    exported = types.SimpleNamespace(model=ir.from_proto(proto))
    kinds: list[object] = [path, str(path), proto, ir.from_proto(proto), exported]
    texts = {
        ir.to_onnx_text(onnxcast.optimize(kind, fp32_cast="all-fp16", inputs=sample).model)
        for kind in kinds
    }
    assert len(texts) == 1


class Program:
    """What a `torch.onnx.ONNXProgram` shows of itself."""

    def __init__(self, model: ir.Model, exported_program: object) -> None:
        self.model, self.exported_program = model, exported_program


def test_a_program_gives_a_program_and_anything_else_none(
    proto: onnx.ModelProto, sample: Sample
) -> None:
    given = Program(ir.from_proto(proto), exported_program=object())
    result = onnxcast.optimize(given, fp32_cast="all-fp16", inputs=sample)
    assert type(result.program) is Program
    assert result.program is not given
    assert result.program.model is result.model
    assert result.program.exported_program is given.exported_program
    assert ir.to_proto(given.model) == ir.to_proto(ir.from_proto(proto))
    for other in (proto, types.SimpleNamespace(model=ir.from_proto(proto))):
        assert onnxcast.optimize(other, fp32_cast="all-fp16", inputs=sample).program is None


def test_anything_else_is_an_input_error() -> None:
    with pytest.raises(onnxcast.InputError, match=r"a builtins\.int was given"):
        onnxcast.optimize(7)


BAD_OPTIONS: list[tuple[dict[str, object], str]] = [
    ({"inputs": 5}, "inputs 5: an .npz file, a folder, a dict of arrays or a list of dicts"),
    ({"inputs": [5]}, "inputs [5]: an .npz file, a folder, a dict of arrays or a list of dicts"),
    ({"input_shapes": 5}, "input shapes 5: a dict from input names to shapes is wanted"),
    ({"input_shapes": {"x": 5}}, "input shapes {'x': 5}: a dict from input names to shapes"),
    ({"tolerance": "x"}, "tolerance 'x': a number from 0 on is wanted"),
    ({"tolerance": [1]}, "tolerance [1]: a number from 0 on is wanted"),
    ({"tolerance": -1}, "tolerance -1: a number from 0 on is wanted"),
    ({"tolerance": math.nan}, "tolerance nan: a number from 0 on is wanted"),
    ({"tolerance": Tolerance(0.1, -0.1)}, "tolerance Tolerance(max=0.1, rms=-0.1): a number"),
    ({"fp32_cast": 5}, "unknown token 5: known are none, all,"),
    ({"fp32_cast": []}, "unknown token []: known are none, all,"),
    ({"scope": 0}, "unknown scope 0: known are all, matmult, inputs, none"),
    ({"dtype": 5}, "unknown dtype 5: known are bf16,"),
    ({"target": 5}, "unknown target 5: known are generic"),
    ({"target": []}, "unknown target []: known are generic"),
    ({"functions": None}, "unknown functions None: known are keep, specialise, inline"),
    ({"keep_ops": "Conv"}, "keep_ops 'Conv': a list of patterns is wanted"),
    ({"keep_ops": [1]}, "keep_ops [1]: a list of patterns is wanted"),
    ({"keep_nodes": None}, "keep_nodes None: a list of patterns is wanted"),
]


@pytest.mark.parametrize(("options", "said"), BAD_OPTIONS, ids=str)
def test_a_bad_option_is_an_input_error(
    proto: onnx.ModelProto, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(onnxcast.InputError) as caught:
        onnxcast.optimize(proto, **options)
    assert str(caught.value).startswith(said)


def test_the_callers_proto_never_changes(proto: onnx.ModelProto, sample: Sample) -> None:
    before = proto.SerializeToString(deterministic=True)
    result = onnxcast.optimize(proto, fp32_cast="all-fp16", inputs=sample)
    assert result.modified
    assert proto.SerializeToString(deterministic=True) == before


def test_the_callers_ir_model_never_changes(proto: onnx.ModelProto, sample: Sample) -> None:
    model = ir.from_proto(proto)
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    result = onnxcast.optimize(model, fp32_cast="all-fp16", inputs=sample)
    assert result.modified
    assert result.model is not model
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_the_callers_file_never_changes(path: Path, sample: Sample) -> None:
    before = path.read_bytes()
    onnxcast.optimize(path, fp32_cast="all-fp16", inputs=sample)
    assert path.read_bytes() == before


def test_inputs_and_outputs_keep_names_types_and_shapes(
    result: onnxcast.Result, proto: onnx.ModelProto
) -> None:
    graph = result.to_proto().graph
    assert list(graph.input) == list(proto.graph.input)
    assert list(graph.output) == list(proto.graph.output)


def test_saving_over_the_source_wants_force(result: onnxcast.Result, path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(onnxcast.InputError, match="is the input itself"):
        result.save(path)
    assert path.read_bytes() == before
    assert result.save(path, force=True) == [path]
    assert path.read_bytes() != before


def test_what_is_saved_is_what_is_returned(result: onnxcast.Result, tmp_path: Path) -> None:
    output = tmp_path / "saved.onnx"
    result.save(output)
    assert onnx.load(output).graph == result.to_proto().graph


def test_the_plan_alone_says_the_same_and_changes_nothing(
    result: onnxcast.Result, path: Path
) -> None:
    before = path.read_bytes()
    assert result.report.plan is not None
    assert onnxcast.plan(path, fp32_cast="all-fp16").rows() == result.report.plan.rows()
    assert path.read_bytes() == before


def test_verify_takes_models_that_we_did_not_make(
    proto: onnx.ModelProto, result: onnxcast.Result, sample: Sample
) -> None:
    assert onnxcast.verify(proto, result.to_proto(), inputs=sample).ok
    assert not onnxcast.verify(proto, result.to_proto(), inputs=sample, tolerance=1e-9).ok


def test_without_a_proof_the_report_holds_none(path: Path) -> None:
    result = onnxcast.optimize(path, fp32_cast="all-fp16", verify=False)
    assert result.report.proof is None
    assert result.report.to_dict()["verification"] is None


def test_the_report_is_json_with_every_decision_and_figure(result: onnxcast.Result) -> None:
    report = json.loads(result.report.to_json())
    groups = {group["node"]: group for group in report["groups"]}
    assert set(groups) == {"product", "mean", "centred"}
    for group in groups.values():
        assert group["format"]
        assert group["reason"]
        assert group["because"]
    assert groups["product"]["format"] == "float16"
    assert groups["mean"]["format"] == "float32"
    assert report["before"] == {
        "nodes": 3,
        "casts": 0,
        "hops": 0,
        "cast_bytes": 0,
        "tensor_bytes": 128,
    }
    assert report["after"]["tensor_bytes"] == 64
    proof = report["verification"]
    assert proof["ok"] is True
    assert [error["name"] for error in proof["twin_errors"]] == ["y"]
    assert 0 < proof["twin_errors"][0]["max_error"] < proof["tolerance"]["max"] == 1e-2
    assert {"python", "onnxcast", "onnx", "onnxruntime"} <= set(report["versions"])


def test_the_report_accounts_for_every_cast(result: onnxcast.Result) -> None:
    report = result.report.to_dict()
    kinds = [finding["kind"] for finding in report["findings"]]
    assert report["after"]["casts"] == kinds.count("CAST_ADDED") - kinds.count("CAST_FOLDED")
    names = {node.name for node in result.model.graph if node.op_type == "Cast"}
    added = {each["node"] for each in report["findings"] if each["kind"] == "CAST_ADDED"}
    assert names <= added
    assert {each["value"] for each in report["findings"] if "SHRUNK" in each["kind"]} == {"w"}


def test_the_pipeline_runs_inside_a_sequential_of_onnx_ir(proto: onnx.ModelProto) -> None:
    policy = onnxcast.make_policy(fp32_cast="all-fp16")
    target = onnxcast.Target(name="mine", preferred=FLOAT16)
    passes = onnxcast.build_pipeline(policy, target)
    assert ir.passes.Sequential(*passes)(ir.from_proto(proto)).modified


def test_a_plan_shows_what_optimize_would_do_with_functions() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
    g (float[2,2] x) => (float[2,2] y) { y = local.act (x) }
    <domain: "local", opset_import: ["": 21]> act (u) => (v) { v = MatMul (u, u) }"""
    model = onnx.parser.parse_model(text)
    kept = onnxcast.plan(model, fp32_cast="all-fp16", functions="keep")
    assert [row["reason"] for row in kept.rows()] == ["CALL"]
    inlined = onnxcast.plan(model, fp32_cast="all-fp16", functions="inline")
    assert [(row["op"], row["format"]) for row in inlined.rows()] == [("MatMul", "float16")]


def test_a_model_without_outputs_is_an_input_error() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => () {}'
    )
    with pytest.raises(onnxcast.InputError, match="has no outputs"):
        onnxcast.optimize(model, fp32_cast="all-fp16")
