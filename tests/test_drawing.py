"""A model as records to draw, and what the report tells of it."""

import json
from pathlib import Path

import onnx.parser
import onnx_ir as ir
import pytest

import onnxcast
from onnxcast.drawing import DrawnNode, draw
from onnxcast.targets import get_target

MODEL = Path(__file__).parents[1] / "models/files/digits_resnet_ts.onnx"
SAMPLES = MODEL.with_suffix(".npz")

TEXT = """<ir_version: 10, opset_import: ["": 21, "mine": 1]>
g (bool c, float[2,3] x, float k) => (float16[2,3] z, float[2,3] x) <float k = {1.0}> {
    y = mine.half (x)
    [choice] w = If (c) <then_branch = a () => (float[2,3] p) { [inner] p = Mul (y, k) },
                         else_branch = b () => (float[2,3] q) { q = Identity (x) }>
    [down] z = Cast <to = 10> (w)
}
<domain: "mine", opset_import: ["" : 21]>
half (a) => (b) { b = Sqrt (a) }
"""


@pytest.fixture
def drawn() -> list[DrawnNode]:
    model = ir.from_proto(onnx.parser.parse_model(TEXT))
    return draw(model, get_target("generic"))


def test_inputs_nodes_bodies_functions_and_outputs(drawn: list[DrawnNode]) -> None:
    names = [(node.name, node.op, node.scope) for node in drawn]
    assert names == [
        ("c", "input", ()),
        ("x", "input", ()),
        ("mine.half(-> y)", "mine.half", ()),
        ("choice", "If", ()),
        ("inner", "Mul", ("choice",)),
        ("Identity(-> q)", "Identity", ("choice",)),
        ("down", "Cast", ()),
        ("Sqrt(-> b)", "Sqrt", ("mine.half",)),
        ("z", "output", ()),
        ("x", "output", ()),
    ]


def test_edges_go_to_what_is_read_in_outer_scopes_too(drawn: list[DrawnNode]) -> None:
    reads = {(node.name, node.op): node.reads for node in drawn}
    assert reads["inner", "Mul"] == (2,)
    assert reads["Identity(-> q)", "Identity"] == (1,)
    assert reads["choice", "If"] == (0,)
    assert reads["z", "output"] == (6,)
    assert reads["x", "output"] == (1,)


def test_formats_and_the_cost_of_casts(drawn: list[DrawnNode]) -> None:
    by_name = {node.name: node for node in drawn}
    assert by_name["choice"].format == "float32"
    assert by_name["down"].format == "float16"
    assert by_name["down"].cast == (1, 12)
    assert by_name["c"].format == "bool"
    plain = by_name["down"].to_dict()
    assert plain == {
        "node": "down",
        "op": "Cast",
        "format": "float16",
        "reads": [3],
        "gives": ["z"],
        "cast": {"hops": 1, "bytes": 12},
    }


@pytest.mark.parametrize("token", ["all-fp16", "all-fp32r", "none"])
def test_the_report_draws_the_result(token: str) -> None:
    result = onnxcast.optimize(MODEL, fp32_cast=token, inputs=SAMPLES, drawing=True)
    report = json.loads(result.report.to_json())
    graph = report["graph"]
    assert len(graph) == report["after"]["nodes"] + 2
    assert sum("cast" in node for node in graph) == report["after"]["casts"]
    assert (
        sum(node["cast"]["bytes"] for node in graph if "cast" in node)
        == (report["after"]["cast_bytes"])
    )
    formats = {node["format"] for node in graph}
    assert {"all-fp16": "float16", "all-fp32r": "float32r", "none": "float32"}[token] in formats
    given = {value for node in graph for value in node.get("gives", [])}
    values = [layer["value"] for layer in report["layers"]]
    assert len(values) > 15
    assert set(values) <= given | {"logits"}
    last = report["layers"][-1]
    (output,) = report["verification"]["twin_errors"]
    assert last["max_error"] == pytest.approx(output["max_error"], rel=1e-3)


def test_nothing_is_drawn_unless_asked() -> None:
    report = onnxcast.optimize(MODEL, fp32_cast="all-fp16", verify=False).report.to_dict()
    assert report["graph"] == report["layers"] == []
    drawn = onnxcast.optimize(MODEL, fp32_cast="all-fp16", verify=False, drawing=True).report
    assert len(drawn.to_dict()["graph"]) > 20
    assert drawn.to_dict()["layers"] == []


def test_limits_of_the_formats_are_told() -> None:
    report = onnxcast.optimize(MODEL, fp32_cast="all-fp16", verify=False).report.to_dict()
    assert report["limits"] == {"float16": {"max": 65504.0, "smallest": 2.0**-24}}
