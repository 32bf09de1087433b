"""The schema that is shipped, and what reports hold: neither has a key that the other lacks."""

import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx.parser
import pytest

import onnxcast
from tests.networks import network, sample

SCHEMA: dict[str, Any] = json.loads(
    (importlib.resources.files("onnxcast") / "report.schema.json").read_text()
)

CALLS = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
g (float[2,4] x, int32[2,4] n) => (float[2,4] y, bfloat16[2,4] z) {
    h = MatMul (x, w) c = own.act (h) y = Relu (c) z = Cast <to = 16> (n)
}
<domain: "own", opset_import: ["" : 21]> act (a) => (b) { b = Tanh (a) }"""

DOMAIN = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 3]>
g (float[2,2] x) => (float[2,2] y) { y = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x) }"""

OFF_INSIDE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[4] x, float[4] far, float[4] small) => (float[4] y) {
    up = Add (x, far) down = Sub (up, far) less = Mul (down, small) y = Add (x, less)
}"""

TWICE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x, float[2] k, bool flag) => (float[2] y) {
    y = If (flag) <
        then_branch = one () => (float[2] t) { [up] a = Mul (x, x) t = Mul (a, k) },
        else_branch = other () => (float[2] e) { [up] b = Mul (x, x) c = Neg (b) e = Mul (c, k) }
    >
}"""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "as it is": ("plain", {"fp32_cast": "none"}),
    "float16 with a pin": ("overflow", {"fp32_cast": "all-fp16"}),
    "mixed with a fallback": ("overflow", {"fp32_cast": "all-mixed"}),
    "pins of one name": ("twice", {"fp32_cast": "all-fp16"}),
    "fallbacks of one name": ("twice", {"fp32_cast": "all-mixed"}),
    "a value off inside": ("off inside", {"fp32_cast": "all-fp16"}),
    "a budget": ("cancellation", {"fp32_cast": "all-fp16", "max_error": 1e-3}),
    "float32r": ("calls", {"fp32_cast": "all-fp32r"}),
    "chains of a target": ("calls", {"fp32_cast": "all-fp16", "target": "ascend910b"}),
    "another order": ("plain", {"fp32_cast": "matmult", "minimise": "casts"}),
    "not verified": ("plain", {"scope": "matmult", "verify": False, "keep_ops": ["Tanh"]}),
    "no op of ONNX": ("domain", {"fp32_cast": "all-fp16"}),
}


def source(kind: str) -> tuple[onnx.ModelProto, Any]:
    if kind == "domain":
        return onnx.parser.parse_model(DOMAIN), {"x": np.ones((2, 2), np.float32)}
    if kind == "twice":
        large = {"x": np.full(2, 1000, np.float32), "k": np.full(2, 1e-6, np.float32)}
        return onnx.parser.parse_model(TWICE), [
            {**large, "flag": np.array(flag)} for flag in (True, False)
        ]
    if kind == "off inside":
        values = {"x": 0.3, "far": 3000, "small": 1e-4}
        feeds = {name: np.full(4, value, np.float32) for name, value in values.items()}
        return onnx.parser.parse_model(OFF_INSIDE), feeds
    if kind == "calls":
        model = onnx.parser.parse_model(CALLS)
        weight = np.eye(4, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        return model, {"x": np.ones((2, 4), np.float32), "n": np.ones((2, 4), np.int32)}
    return network(3, [] if kind == "plain" else [(1, kind)]), sample()  # type: ignore[list-item] # a kind


@functools.cache
def report(case: str) -> Any:
    kind, options = CASES[case]
    model, feeds = source(kind)
    if options.get("verify", True):
        options = {**options, "inputs": feeds}
    result = onnxcast.optimize(model, drawing=True, **options)
    return json.loads(result.report.to_json())


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", CASES)
def test_a_report_holds_to_it(case: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(report(case))


def test_what_is_none_does_not() -> None:
    for change in ({"more": 1}, {"layout": 1}, {"pins": [{"node": 3}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({**report("as it is"), **change})


def test_each_key_of_it_is_in_some_report() -> None:
    found = {key for case in CASES for key in keys(report(case))}
    assert set(declared(SCHEMA)) <= found


def keys(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all keys of a report."""
    if isinstance(value, list):
        for each in value:
            yield from keys(each, path)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield f"{path}/{key}"
            yield from keys(each, f"{path}/{key}")


def declared(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of all keys that a part of the schema names; they must be closed to others."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for each in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from declared(each, path)
    properties = schema.get("properties", {})
    if isinstance(schema.get("additionalProperties"), dict):
        return
    assert not properties or schema["additionalProperties"] is False, path
    for key, each in properties.items():
        assert each, f"{path}/{key} says nothing"
        yield f"{path}/{key}"
        yield from declared(each, f"{path}/{key}")
