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


def test_the_difference_of_two_models(command: Command, perceptron: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.onnx"
    made = command("optimize", perceptron, "--fp32-cast", "all-fp16", "-o", after, "--no-verify")
    assert made.code == 0, made.err
    ran = command("inspect", "--diff", perceptron, after)
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["Cast", "-", "2"] in rows
    assert ["1", "MatMul", "float32", "float16"] in rows
    found = json.loads(command("inspect", after, "--diff", perceptron, "--json").out)
    assert {"what": "casts", "before": 0, "after": 2} in found["facts"]
    assert {"what": "tensor_bytes float16", "before": None, "after": 72} in found["facts"]
    changed = {each["node"]: (each["before"], each["after"]) for each in found["formats"]}
    assert changed["product"] == ("float32", "float16")


def test_the_difference_counts_an_op_whose_output_a_cast_took_over(
    command: Command, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    onnx.save(onnx.parser.parse_model(text), before)
    made = command("optimize", before, "--narrow-op", "Relu", "-o", after, "--no-verify")
    assert made.code == 0, made.err
    found = json.loads(command("inspect", after, "--diff", before, "--json").out)["formats"]
    assert [(each["op"], each["after"]) for each in found] == [("Relu", "float16")]


def test_a_model_does_not_differ_from_itself(command: Command, perceptron: Path) -> None:
    ran = command("inspect", "--diff", perceptron, perceptron)
    assert (ran.code, ran.out) == (0, "no difference in figures, types or formats\n")


def test_a_difference_has_no_plan(command: Command, perceptron: Path) -> None:
    ran = command("inspect", "--diff", perceptron, perceptron, "--scope", "all")
    assert ran.code == 2
    assert "drop one or the other" in ran.err


LONG = "/encoder/layers.0/attention/a_rather_long_name_of_a_projection_layer"


def test_tables_fit_80_columns(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "long.onnx"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch_size_of_the_input, 4] "{LONG}/input") => (float[n, 4] "{LONG}/output") {{
        ["{LONG}/Exp"] h = Exp ("{LONG}/input")
        ["{LONG}/Relu"] "{LONG}/output" = Relu (h)
    }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    token = ["--fp32-cast", "all-fp16"]
    printed = [
        command("inspect", path, *token).out,
        command("explain", path, "--node", f"{LONG}/Exp", *token).out.split("\n", 3)[3],
        command("optimize", path, *token, "--report", tmp_path / "r.json").out.rsplit("\n", 2)[0],
        command("inspect", "--diff", path, tmp_path / "long.float16.onnx").out,
    ]
    for out in printed:
        assert out
        assert max(map(len, out.splitlines())) <= 80, out
