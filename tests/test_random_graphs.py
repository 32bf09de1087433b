"""What must hold for every model: valid, same interface, a second run changes nothing."""

import dataclasses
import itertools
from collections.abc import Iterator

import hypothesis
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import onnxcast
from onnxcast.formats import FLOAT8E4
from onnxcast.graph.edit import cast_target
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, model_graphs, values
from onnxcast.pipeline import build_pipeline
from onnxcast.planning import PlannedPass, fall_back, make_plan
from onnxcast.policy import Meaning, has_meaning, make_policy
from onnxcast.report import measure
from onnxcast.targets import GENERIC, Target, get_target
from onnxcast.verification.twin import build_twin
from tests.strategies import models

FEEDS = {
    "x": np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32),
    "z": np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32),
}

quick = hypothesis.settings(
    max_examples=80,
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)


LIMITED = dataclasses.replace(GENERIC, float8e4=FLOAT8E4)
"""A float8 that ends before its ONNX type does, so that a Clip comes before the Cast."""

NARROW_PAIRS = {
    (ir.DataType.FLOAT16, ir.DataType.BFLOAT16),
    (ir.DataType.BFLOAT16, ir.DataType.FLOAT16),
}


def converted(
    proto: onnx.ModelProto,
    token: str,
    cast_folding: str = "exact",
    target: Target = GENERIC,
    illegal_casts: str = "refuse",
) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    policy = make_policy(fp32_cast=token, cast_folding=cast_folding, illegal_casts=illegal_casts)
    for each in build_pipeline(policy, target):
        each(model)
    return ir.to_proto(model)


def interface(proto: onnx.ModelProto) -> list[bytes]:
    values = (*proto.graph.input, *proto.graph.output)
    return [value.SerializeToString(deterministic=True) for value in values]


def run(proto: onnx.ModelProto, flag: bool) -> list[npt.NDArray[np.generic]]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    feeds = {"flag": np.array(flag), **FEEDS}
    results = session.run(None, {name: feeds[name] for name in names})
    return [np.asarray(result) for result in results]


def reference(proto: onnx.ModelProto, flag: bool = True) -> list[npt.NDArray[np.generic]]:
    """Results of the source; rejected where onnxruntime itself fails."""
    try:
        return run(proto, flag)
    except Fail as failure:
        # onnxruntime 1.32 drops exact pairs of Casts and forgets the bodies that read them.
        if not any(f"running {op} node" in str(failure) for op in ("If", "Loop")):
            raise
        hypothesis.reject()


def equal_bits(left: npt.NDArray[np.generic], right: npt.NDArray[np.generic]) -> bool:
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and (left.tobytes() == right.tobytes())
    )


@pytest.mark.parametrize(
    ("token", "folding"),
    [
        ("none", "exact"),
        ("all", "exact"),
        ("all-fp16", "exact"),
        ("matmult", "exact"),
        ("none", "drop-narrowing"),
        ("all-fp8e4", "drop-narrowing"),  # whose own round trips stay
    ],
)
@quick
@hypothesis.given(proto=models())
def test_the_result_is_valid_keeps_its_interface_and_is_a_fixed_point(
    token: str, folding: str, proto: onnx.ModelProto
) -> None:
    result = converted(proto, token, folding)
    onnx.checker.check_model(result, full_check=True)
    assert interface(result) == interface(proto)
    again = converted(result, token, folding)
    assert again.SerializeToString(deterministic=True) == result.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("target", [GENERIC, LIMITED], ids=["generic", "limited"])
@pytest.mark.parametrize("token", ["all-fp16", "all-fp8e4", "all-mixed", "matmult-bf16"])
@quick
@hypothesis.given(proto=models())
def test_the_types_that_a_plan_leaves_behind_are_those_of_the_model(
    token: str, target: Target, proto: onnx.ModelProto
) -> None:
    model = ir.from_proto(proto)
    for each in build_pipeline(make_policy(fp32_cast=token), target):
        each(model)
        if isinstance(each, PlannedPass):
            types = ElementTypes(model)
            assert each.types_after is not None
            for value in itertools.chain.from_iterable(map(values, model_graphs(model))):
                assert each.types_after.of(value) == types.of(value), value.name


@pytest.mark.parametrize(
    ("token", "target"),
    [
        ("all-fp16", GENERIC),
        ("all-fp8e4", LIMITED),
        ("all-bf16", get_target("ascend950")),
        ("none", get_target("ascend950")),
        ("all-fp8e4", get_target("trn2")),
    ],
)
@quick
@hypothesis.given(proto=models())
def test_what_the_report_measures_is_what_the_result_is(
    token: str, target: Target, proto: onnx.ModelProto
) -> None:
    result = onnxcast.optimize(
        proto, fp32_cast=token, target=target, illegal_casts="keep", verify=False
    )
    assert result.report.after == measure(result.model, target)


@quick
@hypothesis.given(proto=models())
def test_without_a_scope_every_output_keeps_its_bits(proto: onnx.ModelProto) -> None:
    result = converted(proto, "none")
    for flag in (False, True):
        for before, after in zip(reference(proto, flag), run(result, flag), strict=True):
            assert equal_bits(before, after)


@quick
@hypothesis.given(proto=models())
def test_the_twin_of_a_result_is_valid_and_runs(proto: onnx.ModelProto) -> None:
    twin = ir.to_proto(build_twin(ir.from_proto(converted(proto, "all-fp16"))).model)
    onnx.checker.check_model(twin, full_check=True)
    assert [value.name for value in twin.graph.output] == [v.name for v in proto.graph.output]
    run(twin, flag=True)


@pytest.mark.parametrize("token", ["all-mixed", "matmult-mixed"])
@quick
@hypothesis.given(proto=models(), seed=hypothesis.strategies.integers(0, 2**32 - 1))
def test_nodes_that_fall_back_leave_no_direct_cast_and_a_fixed_point(
    token: str, proto: onnx.ModelProto, seed: int
) -> None:
    model, random = ir.from_proto(proto), np.random.default_rng(seed)
    for node in (node for graph in model_graphs(model) for node in graph):
        if random.random() < 0.4:
            fall_back(node, "reaches 1e+06")
    marked = ir.to_proto(model)
    for target in (GENERIC, get_target("ascend910b")):
        result = converted(marked, token, target=target, illegal_casts="keep")
        onnx.checker.check_model(result, full_check=True)
        assert interface(result) == interface(proto)
        assert run(ir.to_proto(build_twin(ir.from_proto(result)).model), flag=True)
        # A second run may go on folding the model's own Casts, in one format as well.
        for plain in (token.replace("mixed", "fp16"), token.replace("mixed", "bf16")):
            once = converted(proto, plain, target=target, illegal_casts="keep")
            hypothesis.assume(once == converted(once, plain, target=target, illegal_casts="keep"))
        again = converted(result, token, target=target, illegal_casts="keep")
        assert again.SerializeToString(deterministic=True) == result.SerializeToString(
            deterministic=True
        )
        own = set(casts(model)) if target is GENERIC else set()
        assert NARROW_PAIRS & set(casts(ir.from_proto(result))) <= own


def casts(model: ir.Model) -> Iterator[tuple[ir.DataType | None, ir.DataType]]:
    """What the Casts of a model lead from and to."""
    types = ElementTypes(model)
    for node in (node for graph in model_graphs(model) for node in graph):
        to = cast_target(node)
        if to is not None:
            yield types.dtype(node.inputs[0]), to


def computed_narrow(graph: ir.Graph, narrow: set[ir.Node], touched: set[ir.Value]) -> bool:
    """Note the values of `graph` that a narrow op computed; whether there are any."""
    found = False
    for node in graph:
        inside = [computed_narrow(body, narrow, touched) for body in bodies(node)]
        if node in narrow or any(inside) or any(value in touched for value in node.inputs):
            touched.update(node.outputs)
            found = True
    return found


@pytest.mark.parametrize("token", ["all-fp16", "matmult-fp16"])
@quick
@hypothesis.given(proto=models())
def test_an_output_that_no_narrow_op_computes_keeps_its_bits(
    token: str, proto: onnx.ModelProto
) -> None:
    source, policy = ir.from_proto(proto), make_policy(fp32_cast=token)
    for each in build_pipeline(policy, GENERIC):
        if isinstance(each, PlannedPass):
            break
        each(source)
    plan = make_plan(source, policy, GENERIC)
    touched: set[ir.Value] = set()
    # Data movement alone rounds nothing that a wide reader sees.
    narrow = {
        group.node for group, _ in plan.narrow() if not has_meaning(group.node, Meaning.CARRIER)
    }
    computed_narrow(source.graph, narrow, touched)
    wanted = [output not in touched for output in source.graph.outputs]
    hypothesis.assume(any(wanted))
    twin = ir.to_proto(build_twin(ir.from_proto(converted(proto, token))).model)
    for before, after, equal in zip(reference(proto), run(twin, flag=True), wanted, strict=True):
        # The twin gives float16 outputs as float32.
        assert equal_bits(before, after.astype(before.dtype)) or not equal
