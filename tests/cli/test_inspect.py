import json
from pathlib import Path

import onnx

from tests.cli.conftest import Command


def test_shows_what_is_in_a_model(command: Command, perceptron: Path) -> None:
    ran = command("inspect", perceptron)
    assert ran.code == 0
    assert not ran.err
    for shown in ("ai.onnx 17", "Casts       0", "[n,8]", "float32     144 bytes", "MatMul"):
        assert shown in ran.out
    assert "type groups" not in ran.out


def test_json_holds_the_same(command: Command, perceptron: Path) -> None:
    facts = json.loads(command("inspect", perceptron, "--json").out)
    assert facts["opsets"] == {"ai.onnx": 17}
    assert facts["ir_version"] == 8
    assert facts["inputs"] == [{"name": "x", "type": "float32", "shape": "[n,8]"}]
    assert facts["outputs"] == [{"name": "y", "type": "float32", "shape": "[n,4]"}]
    assert facts["tensor_bytes"] == {"float32": 144}
    assert facts["op_types"] == {"Add": 1, "MatMul": 1, "Relu": 1}
    assert "groups" not in facts


def test_a_token_adds_the_plan(command: Command, perceptron: Path) -> None:
    options = ["--fp32-cast", "matmult-fp16"]
    ran = command("inspect", perceptron, *options)
    assert "outside the scope asked for" in ran.out
    groups = json.loads(command("inspect", perceptron, *options, "--json").out)["groups"]
    formats = {group["op"]: (group["format"], group["reason"]) for group in groups}
    assert formats["MatMul"] == ("float16", "MATMUL_OPERANDS")
    assert formats["Add"] == ("float32", "SCOPE")


FUNCTION = """
<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
agraph (float[4] x) => (float[4] y) { y = mine.twice (x) }
<domain: "mine", opset_import: ["" : 17]>
twice (a) => (b) { b = Add (a, a) }
"""


def test_functions_are_planned_as_asked(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "function.onnx"
    onnx.save(onnx.parser.parse_model(FUNCTION), path)

    def ops(functions: str) -> dict[str, str]:
        ran = command(
            "inspect", path, "--fp32-cast", "all-fp16", "--functions", functions, "--json"
        )
        return {group["op"]: group["format"] for group in json.loads(ran.out)["groups"]}

    assert ops("specialise") == {"mine.twice": "float32", "Add": "float16"}
    assert ops("keep") == {"mine.twice": "float32"}
    ran = command("inspect", path, "--functions", "some")
    assert ran.code == 2
    assert "specialise" in ran.err
