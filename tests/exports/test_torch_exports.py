import functools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import onnxcast
from onnxcast.formats import FLOAT16
from onnxcast.targets import get_target
from tests.exports.exporting import export, sample_of
from tests.exports.networks import EXPORTERS, KINDS, network

pytestmark = pytest.mark.export

MODES: list[dict[str, Any]] = [
    {"fp32_cast": "all-fp16"},
    {"fp32_cast": "matmult"},
    {"target": "ascend950"},
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("exported")

    @functools.cache
    def export_once(kind: str, exporter: str) -> Any:
        return export(network(kind, exporter), exporter, folder / f"{kind}.{exporter}.onnx")

    return export_once


def narrow(result: onnxcast.Result) -> set[str]:
    """The op types that work on narrow values, in all scopes."""
    return {
        node.op_type
        for graph in result.model.graphs()
        for node in graph
        for value in (*node.inputs, *node.outputs)
        if value is not None and value.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    } - {"Cast"}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "".join(mode.values()))
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_end_of_an_export_script(
    exported: Any, kind: str, exporter: str, mode: dict[str, Any], tmp_path: Path
) -> None:
    net, source = network(kind, exporter), exported(kind, exporter)
    result = onnxcast.optimize(source, inputs=sample_of(net), **mode)
    assert result.verified
    assert result.report.plan is not None
    assert not result.report.plan.pins()
    multiplied = {"cnn": {"Conv"}, "decoder": {"MatMul"}, "control_flow": {"Gemm"}}[kind]
    assert multiplied <= narrow(result)
    assert result.report.after.tensor_bytes < 0.6 * result.report.before.tensor_bytes
    path = tmp_path / "result.onnx"
    result.save(path)
    onnx.checker.check_model(path, full_check=True)
    again = onnxcast.optimize(path, inputs=sample_of(net), **mode)
    assert (again.verified, again.modified) == (True, False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_stays_a_program_that_saves_and_runs(
    exported: Any, kind: str, tmp_path: Path
) -> None:
    net, given = network(kind, "dynamo"), exported(kind, "dynamo")
    before = ir.to_proto(given.model)
    result = onnxcast.optimize(given, fp32_cast="all-fp16", inputs=sample_of(net))
    assert ir.to_proto(given.model) == before
    program = result.program
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert program.exported_program is given.exported_program
    wanted = [each.numpy() for each in given(*net.args)]
    assert_near(wanted, [each.numpy() for each in program(*net.args)])
    for external in (False, True):
        path = tmp_path / f"{external}.onnx"
        program.save(path, external_data=external)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        assert_near(wanted, session.run(None, sample_of(net)))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_decoder_takes_other_lengths_than_it_was_exported_with(
    exported: Any, exporter: str
) -> None:
    net = network("decoder", exporter)
    source = exported("decoder", exporter)
    result = onnxcast.optimize(source, fp32_cast="all-fp16", inputs=sample_of(net))
    session = onnxruntime.InferenceSession(result.to_proto().SerializeToString())
    tokens, past = torch.randint(0, 50, (1, 7)), [each[:, :, :, :4] for each in net.args[1:]]
    feeds = {"tokens": tokens.numpy()}
    feeds |= {name: each.numpy() for name, each in zip(net.inputs[1:], past, strict=True)}
    with torch.no_grad():
        wanted = [each.numpy() for each in net.module(tokens, *past)]
    assert_near(wanted, session.run(None, feeds))


def test_the_casts_of_a_program_for_a_target_are_native(exported: Any) -> None:
    net, target = network("decoder", "dynamo"), get_target("ascend950")
    result = onnxcast.optimize(exported("decoder", "dynamo"), target=target, inputs=sample_of(net))
    assert target.preferred == FLOAT16
    assert result.report.to_dict()["casts"]["hops"] == result.report.after.casts


def assert_near(wanted: list[Any], found: list[Any]) -> None:
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype == other.dtype
        assert np.abs(one - other).max() <= 1e-2 * np.abs(one).max()
