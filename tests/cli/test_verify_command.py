import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.conftest import Command


@pytest.fixture
def converted(command: Command, perceptron: Path, samples: Path) -> Path:
    path = perceptron.with_name("converted.onnx")
    assert command("optimize", perceptron, "--inputs", samples, "-o", path).code == 0
    return path


def test_a_converted_model_matches(
    command: Command, perceptron: Path, converted: Path, samples: Path
) -> None:
    ran = command("verify", perceptron, converted, "--inputs", samples)
    assert ran.code == 0
    assert not ran.err
    assert "rounded as on the device" in ran.out
    assert "ok" in ran.out


def test_a_tolerance_that_is_too_small_fails_in_one_line(
    command: Command, perceptron: Path, converted: Path, samples: Path
) -> None:
    options = ["--inputs", samples, "--tolerance", "1e-9"]
    ran = command("verify", perceptron, converted, *options)
    assert ran.code == 1
    assert "FAILED" in ran.out
    assert ran.err.count("\n") == 1
    assert "output 'y' does not match" in ran.err
    assert "keep" not in ran.err, "verify has no option that keeps anything"


def test_json_is_valid_even_where_figures_are_infinite(
    command: Command, overflow: Path, overflow_samples: Path
) -> None:
    narrow = overflow.with_name("narrow.onnx")
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[4] x, float[4] k, float[4] s) => (float[4] y, float[4] z) {
           a = Cast <to = 10> (x)
           b = Cast <to = 10> (k)
           c = Cast <to = 10> (s)
           [product] p = Mul (a, b)
           q = Mul (p, c)
           y = Cast <to = 1> (q)
           z = Add (x, k)
        }
        """
    )
    onnx.save(model, narrow)
    ran = command("verify", overflow, narrow, "--inputs", overflow_samples, "--json")
    assert ran.code == 1

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    proof = json.loads(ran.out, parse_constant=refuse)
    assert proof["ok"] is False
    assert {error["name"]: error["max_error"] for error in proof["twin_errors"]} == {
        "y": "inf",
        "z": 0.0,
    }
    assert "first diverging node: product" in ran.err


def test_a_made_up_sample_is_admitted(command: Command, perceptron: Path, converted: Path) -> None:
    ran = command("verify", perceptron, converted)
    assert ran.code == 0
    assert "compared on 1 made-up sample only" in ran.err


def test_a_second_model_that_does_not_load_is_told_as_such(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path
) -> None:
    model = onnx.load(perceptron)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros(5, np.float32), "b"))
    onnx.save(model, tmp_path / "misfit.onnx")
    ran = command("verify", perceptron, tmp_path / "misfit.onnx", "--inputs", samples)
    assert ran.code == 1
    assert "onnxruntime does not take AFTER: it failed to" in ran.err


def test_names_with_brackets_are_shown_as_they_are(command: Command, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> agraph (float[4] x) => (float[4] y) '
        "{ y = Mul (x, c) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([2], np.float32), "c"))
    model.graph.output[0].name = model.graph.node[0].output[0] = "head[red]/y"
    path = tmp_path / "brackets.onnx"
    onnx.save(model, path)
    ran = command("verify", path, path)
    assert ran.code == 0
    assert "head[red]/y" in ran.out
