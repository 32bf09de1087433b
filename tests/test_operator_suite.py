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

from onnxcast.errors import InputError, RefusedError
from onnxcast.files import Source, read_model
from onnxcast.formats import FLOAT32
from onnxcast.pipeline import build_pipeline
from onnxcast.planning import Plan, PlannedPass, Reason
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC
from onnxcast.verification.comparison import default_tolerance
from onnxcast.verification.proof import prove
from onnxcast.verification.session import Worker

pytestmark = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32),
    reason="onnxruntime before 1.32 refuses types that the installed onnx allows",
)

TOKENS = ["all-fp16", "all", "matmult", "none"]

# Operands around 10,000 or -3.4e38 that the case feeds: only a run shows that they are too large.
NEEDS_DATA = {
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
    "test_logsoftmax_large_number",
    "test_logsoftmax_large_number_expanded",
    "test_logsoftmax_large_number_expanded_ver18",
    "test_softmax_large_number",
    "test_softmax_large_number_expanded",
    "test_softmax_large_number_expanded_ver18",
}

# Causes out of the schema, of the shape of the graph, or of the table of meanings.
CAUSES = set(Reason) - {
    Reason.REQUESTED,
    Reason.MATMUL_OPERANDS,
    Reason.CARRIES_NARROW,
    Reason.FEEDS_NARROW,
    Reason.KEEP_OP,
    Reason.KEEP_NODE,
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


def converted(source: Source, token: str) -> tuple[ir.Model, Plan | None]:
    model, plan = source.model.clone(), None
    for pass_ in build_pipeline(make_policy(fp32_cast=token), GENERIC):
        pass_(model)
        if isinstance(pass_, PlannedPass):
            plan = pass_.plan
    return model, plan


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

    Scope ``none`` gives ``unchanged``: the same bits.
    """
    case = cases()[name]
    try:
        source = read_model(case.model)
    except InputError:
        return "unreadable"
    result, plan = converted(source, token)
    data = serialized(result)
    assert accepted(data) or not accepted(serialized(source.model)), "valid before, not after"
    again, _ = converted(Source(ir.from_proto(onnx.ModelProto.FromString(data)), None), token)
    assert serialized(again) == data, "a second run changes the bytes"
    if plan is not None and next(plan.narrow(), None) is None:
        reasons = {decision.reason for decision in plan.decisions.values()}
        assert reasons <= CAUSES
        return " and ".join(sorted(reason.name for reason in reasons)) or "no float32"
    if plan is not None and name in NEEDS_DATA:
        return "narrow, needs data"
    tolerance = default_tolerance(make_policy(fp32_cast=token).format or FLOAT32)
    try:
        proof = prove(source, result, [feeds(case)], tolerance, worker)
    except RefusedError:
        return "source does not run"
    assert proof.ok, (proof.as_is, proof.worst, proof.diverging)
    return "unchanged" if plan is None else "narrow"


@pytest.mark.parametrize("token", TOKENS)
def test_a_sample_of_the_suite_converts_and_matches(token: str, worker: Worker) -> None:
    found = {name: outcome(name, token, worker) for name in sample()}
    assert len(found) == 150
    if token != "none":
        assert sum(result == "narrow" for result in found.values()) >= {"matmult": 10}.get(
            token, 50
        )


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
    else:
        assert found["source does not run"] <= 20
        assert found["narrow"] >= {"matmult": 150}.get(token, 650)
