"""A report as a lock file: the same decisions without a search."""

import copy
import json
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import onnxcast
from onnxcast.verification.comparison import Tolerance
from tests.networks import network, sample

FAULTS: Any = [(2, "overflow"), (6, "cancellation")]


def model() -> onnx.ModelProto:
    return network(10, FAULTS)


def first(source: object = None, **options: Any) -> onnxcast.Result:
    asked = {"fp32_cast": "all-fp16", "inputs": sample(), **options}
    return onnxcast.optimize(source or model(), **asked)


def again(report: Any, source: object = None, **options: Any) -> onnxcast.Result:
    options = {"inputs": sample(), **options}
    return onnxcast.optimize(source or model(), plan=report, **options)


def content(result: onnxcast.Result) -> bytes:
    return bytes(result.to_proto().SerializeToString(deterministic=True))


def as_json(result: onnxcast.Result) -> Any:
    return json.loads(result.report.to_json())


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "budget": {"max_error": 1e-3},
    "per output": {"max_error": {"y": 1e-2}, "metric": "rms"},
    "keep": {"keep_nodes": ["product_3"], "narrow_ops": iter(["Identity"])},
    "bfloat16": {"fp32_cast": None, "scope": "matmult", "dtype": "bf16"},
    "wide products": {"matmul_output": "wide", "io_types": {"x": "fp16"}},
    "mixed": {"fp32_cast": "all-mixed"},
    "float32r": {"fp32_cast": "all-fp32r", "fp32r_bits": 13},
    "tolerance": {"tolerance": Tolerance(0.5, 0.4)},
    "opset": {"opset": 22},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_replay_gives_the_same_bytes(options: dict[str, Any]) -> None:
    result = first(**options)
    replayed = again(as_json(result))
    assert content(replayed) == content(result)
    assert replayed.verified
    assert replayed.report.search is None
    before, after = as_json(result), as_json(replayed)
    for part in ("request", "groups", "pins", "opset", "token", "target"):
        assert after[part] == before[part]
    assert content(again(after)) == content(result)


def test_what_can_be_read_once_only_counts_all_the_same() -> None:
    once = first(keep_ops=iter(["Tanh"]))
    assert content(once) == content(first(keep_ops=["Tanh"])) != content(first())
    assert as_json(once)["request"]["options"]["keep_ops"] == ["Tanh"]


def test_a_replay_needs_no_samples(tmp_path: pathlib.Path) -> None:
    result, path = first(), tmp_path / "report.json"
    path.write_text(result.report.to_json())
    replayed = onnxcast.optimize(model(), plan=path, verify=False)
    assert content(replayed) == content(result)


def test_a_retrained_model_gets_the_same_decisions() -> None:
    retrained = model()
    for tensor in retrained.graph.initializer:
        if tensor.name.startswith("w"):
            array = numpy_helper.to_array(tensor) * np.float32(0.97)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    result = first()
    replayed = again(as_json(result), retrained)
    assert content(replayed) != content(result)
    assert as_json(replayed)["pins"] == as_json(result)["pins"]
    assert as_json(replayed)["groups"] == as_json(result)["groups"]


def test_a_constant_that_now_leaves_the_format_stays_wide_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    retrained = model()
    for tensor in retrained.graph.initializer:
        if tensor.name == "b4":
            tensor.CopyFrom(numpy_helper.from_array(np.full(16, 1e6, np.float32), "b4"))
    with caplog.at_level(logging.WARNING):
        replayed = again(as_json(first()), retrained)
    decided = {row["node"]: row["format"] for row in as_json(replayed)["groups"]}
    assert decided["sum_4"] == "float32"
    assert "node sum_4 is decided otherwise, float32" in caplog.text


def test_a_node_that_is_gone_is_named() -> None:
    with pytest.raises(onnxcast.InputError) as raised:
        again(as_json(first()), network(8, FAULTS))
    assert "gone from the model: node product_8 (MatMul) and 5 more" in str(raised.value)


def test_pins_of_an_earlier_run_are_kept_or_forgotten_as_then(tmp_path: pathlib.Path) -> None:
    pinned = tmp_path / "pinned.onnx"
    first().save(pinned)
    for forget in (False, True):
        result = first(pinned, forget_pins=forget)
        assert content(again(as_json(result), pinned)) == content(result)


TWINS = """<ir_version: 10, opset_import: ["": 21]>
g (float[4,8] x, bool c) => (float[4,8] y) <float far = {3000}> {
    y = If (c) <
        then_branch = t () => (float[4,8] r) { u = Add (x, far) r = Sub (u, far) },
        else_branch = e () => (float[4,8] r) { u = Add (x, x) r = Sub (u, x) }
    >
}"""


def test_nodes_of_one_name_are_told_apart() -> None:
    source = onnx.parser.parse_model(TWINS)
    inputs = {
        "x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8),
        "c": np.array(True),
    }
    result = first(source, inputs=inputs)
    assert {row["node"] for row in as_json(result)["pins"]} == {"Add(-> u)", "Sub(-> r)"}
    replayed = again(as_json(result), source, inputs=inputs)
    assert content(replayed) == content(result)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fp32_cast": "all"}, "fp32_cast 'all' together with plan in memory, which was made with"),
        ({"keep_ops": ["Tanh"]}, "keep_ops ['Tanh'] together with plan"),
        ({"opset": 22}, "opset 22 together with plan in memory, which was made with 'auto'"),
        ({"target": "trn2"}, "made for target generic"),
        ({"policy": lambda _node: None}, "policy 'a function' together with plan"),
    ],
)
def test_another_request_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(onnxcast.InputError) as raised:
        again(as_json(first()), **options)
    assert told in str(raised.value)


def test_a_function_as_policy_must_be_given_again() -> None:
    def keep(node: Any) -> str | None:
        return "wide" if node.name == "tanh_3" else None

    result = first(policy=keep)
    with pytest.raises(onnxcast.InputError, match="made with a function as policy"):
        again(as_json(result))
    assert content(again(as_json(result), policy=keep)) == content(result)


def test_what_passes_may_be_another() -> None:
    report = as_json(first(max_error=1e-3))
    assert again(report, max_error=1.0).verified
    with pytest.raises(onnxcast.VerificationError):
        again(report, max_error=1e-9)


def test_a_report_for_another_opset_or_other_tables_is_refused() -> None:
    report = as_json(first())
    for part, value, told in (
        ("opset", {"before": 21, "after": 18}, "made at opset 18, this model comes to 2"),
        ("target_hash", "0", "made for target generic (0), not for generic"),
    ):
        changed = copy.deepcopy(report)
        changed[part] = value
        with pytest.raises(onnxcast.InputError) as raised:
            again(changed)
        assert told in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read: "),
        ("[" * 100_000, "cannot be read: "),
        ("[]", "no report of onnxcast, it is no object"),
        ('{"request": {}}', "no report of onnxcast, it has no 'token'"),
        (None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_report_is_refused(text: str | None, told: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(onnxcast.InputError) as raised:
        again(path)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


ODD: tuple[Any, ...] = (None, 0, -1.5, True, "x", [], {}, [1], [[]], [None], {"x": 1})


def parts(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all of a report, the first of each list standing for the rest."""
    yield path
    rows = content.items() if isinstance(content, dict) else enumerate(content[:1])
    for key, value in rows:
        if isinstance(value, dict | list):
            yield from parts(value, (*path, key))
        else:
            yield (*path, key)


def test_a_report_with_any_part_odd_is_taken_or_refused_in_one_line() -> None:
    report = as_json(first(tolerance=Tolerance(0.5, 0.4), keep_ops=["Tanh"]))
    assert report["pins"]
    read = ("request", "token", "target", "target_hash", "opset", "groups", "pins")
    told = []
    for path in list(parts({name: report[name] for name in read}))[1:]:
        for odd in ODD:
            changed = copy.deepcopy(report)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = odd
            try:
                again(changed, inputs=None, verify=False)
            except onnxcast.OnnxcastError as error:
                told.append(str(error))
    assert len(told) > 100
    assert not any("\n" in text for text in told)
