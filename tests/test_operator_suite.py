"""ONNX's own operator suite through every mode: valid, loadable, right, and the same when repeated.

All 1,884 cases take minutes and are marked slow; a fixed sample runs always.
"""

import collections
import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx_ir as ir
import onnxruntime
import pytest

from onnxcast.conversion import Conversion
from onnxcast.errors import InputError, RefusedError
from onnxcast.files import Source, read_model
from onnxcast.formats import FLOAT32
from onnxcast.planning import Reason
from onnxcast.policy import Policy, make_policy
from onnxcast.result import Clock, Result, Samples
from onnxcast.targets import GENERIC, Target
from onnxcast.verification.comparison import default_tolerance
from onnxcast.verification.session import Worker
from onnxcast.verified import Verified

pytestmark = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32),
    reason="onnxruntime before 1.32 refuses types that the installed onnx allows",
)

TOKENS = ["all-fp16", "all", "matmult", "all-fp8e4", "all-fp32r", "inputs", "none"]

# Causes out of the schema, of the shape of the graph, or of the table of meanings, and figures.
CAUSES = set(Reason) - {
    Reason.REQUESTED,
    Reason.MATMUL_OPERANDS,
    Reason.STORAGE,
    Reason.WEIGHTS,
    Reason.INPUT,
    Reason.CARRIES_NARROW,
    Reason.FEEDS_NARROW,
    Reason.KEEP_OP,
    Reason.KEEP_NODE,
    Reason.KEEP_POLICY,
}

# Cases that only a run shows to leave the format (8 feed around 10,000 or -3.4e38), as measured
# with onnx 1.23; float8 ends at 448.
NEEDS_DATA = {
    "all-fp16": 8,
    "all": 8,
    "matmult": 2,
    "all-fp8e4": 25,
    "all-fp32r": 10,
    "inputs": 8,
}

# Cases that onnxruntime does not run, among those that are narrow or whose opset must be raised.
DO_NOT_RUN = {
    "all-fp16": 25,
    "all": 31,
    "matmult": 14,
    "all-fp8e4": 37,
    "all-fp32r": 19,
    "inputs": 26,
}


@functools.cache
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes overflows on purpose
        from onnx.backend.test.case.node import collect_testcases

        return {case.name: case for case in collect_testcases()}


def sample() -> list[str]:
    """150 cases, every n-th by name, so that no family is left out."""
    names = sorted(cases())
    return names[:: len(names) // 150][:150]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(timeout=120) as running:
        yield running


def converted(source: Source, token: str, samples: Samples, worker: Worker) -> Result:
    """What `onnxcast.optimize` does, in a worker that all cases share."""
    policy = make_policy(fp32_cast=token)
    tolerance = default_tolerance(policy.format or FLOAT32)
    run = Conversion(source, policy, GENERIC, Clock(None))
    run.raise_opset("auto", samples, worker)
    run.prepare()
    run.pin_ranges(samples, worker)
    result = run.narrow(samples.origin, once=False)
    if not is_narrow(result) and token != "none":
        return result
    with Verified.against_source(run, samples, tolerance, worker) as verified:
        return verified.prove_within(result) or verified.repair() or result


def is_narrow(result: Result) -> bool:
    plan = result.report.plan
    return plan is not None and next(plan.narrow(), None) is not None


def serialized(model: ir.Model) -> bytes:
    found: bytes = ir.to_proto(model).SerializeToString(deterministic=True)
    return found


def feeds(case: Any) -> dict[str, np.ndarray[Any, Any]]:
    names = [value.name for value in case.model.graph.input]
    inputs, _ = case.data_sets[0]
    return dict(zip(names, inputs, strict=False))


def accepted(model: bytes) -> bool:
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def outcome(name: str, token: str, worker: Worker) -> str:
    """``narrow``, the causes that pinned all groups, or why nothing was proved.

    Scope ``none`` gives ``unchanged``: the same bits. ``with pins`` if figures were needed.
    """
    case = cases()[name]
    try:
        source = read_model(case.model)
    except InputError:
        return "unreadable"
    samples = Samples([feeds(case)], "the suite")
    try:
        result = converted(source, token, samples, worker)
    except RefusedError as refusal:
        return "cannot be raised" if "opset" in str(refusal) else "source does not run"
    data = serialized(result.model)
    assert accepted(data) or not accepted(serialized(source.model)), "valid before, not after"
    again = Conversion(read_model(onnx.ModelProto.FromString(data)), *request(token), Clock(None))
    again.prepare()
    assert serialized(again.narrow("").model) == data, "a second run changes the bytes"
    plan = result.report.plan
    if plan is not None and not is_narrow(result):
        reasons = {decision.reason for decision in plan.decisions.values()}
        assert reasons <= CAUSES
        return " and ".join(sorted(reason.name for reason in reasons)) or "no float32"
    assert result.verified, result.report.proof
    pins = "" if plan is None or not plan.pins() else " with pins"
    return "unchanged" if plan is None else f"narrow{pins}"


def request(token: str) -> tuple[Policy, Target]:
    return make_policy(fp32_cast=token), GENERIC


@pytest.mark.parametrize("token", TOKENS)
def test_a_sample_of_the_suite_converts_and_matches(token: str, worker: Worker) -> None:
    found = {name: outcome(name, token, worker) for name in sample()}
    assert len(found) == 150
    if token != "none":
        narrow = sum(result.startswith("narrow") for result in found.values())
        assert narrow >= {"matmult": 10, "inputs": 40}.get(token, 50)


@pytest.mark.slow
@pytest.mark.parametrize("token", TOKENS)
def test_the_whole_suite_converts_and_matches(token: str, worker: Worker) -> None:
    found = collections.Counter(outcome(name, token, worker) for name in cases())
    for result, count in found.most_common():
        print(f"{token}: {count} {result}")
    assert found["unreadable"] <= 20
    if token == "none":
        # The rest has no kernel on the CPU, or types that numpy cannot exchange with it.
        assert found["unchanged"] >= 1590
        return
    assert found["source does not run"] <= DO_NOT_RUN[token]
    assert found["cannot be raised"] == 0
    assert found["narrow"] >= {"matmult": 150, "inputs": 400}.get(token, 650)
    pinned = sum(count for result, count in found.items() if "PINNED" in result)
    assert found["narrow with pins"] + pinned <= NEEDS_DATA[token]
