"""The benchmarks run: what they time and count is what they say. Their figures are for people."""

import collections
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.graph.walk import model_graphs, model_nodes
from onnxcast.targets import GENERIC, get_target
from onnxcast.verification.session import Worker
from tests.benchmarks import bench_nodes, nodes, peers, placement, search, sizes, twins
from tests.benchmarks.models import SHAPES, model
from tests.benchmarks.subjects import Figures, Subject
from tests.benchmarks.tools import Convert, available
from tests.networks import network, sample

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[4] x, int64[2] i) => (float[4] y, float[2] z) <int64[1] s = {4}> {
    [one] a = Relu (x)
    [log] b = Log (a)
    [turn] c = Reshape (b, s)
    [two] y = Neg (c)
    [whole] f = Cast <to = 1> (i)
    [three] z = Sqrt (f)
}"""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_has_about_so_many_nodes_and_is_optimised(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model(shape, 600), path)
    seconds = bench_nodes.optimise(path, shape, tmp_path / "out.onnx")
    held = ir.load(path)
    assert sum(map(len, model_graphs(held))) == pytest.approx(600, rel=0.05)
    made = collections.Counter(node.op_type for node in model_nodes(ir.load(tmp_path / "out.onnx")))
    assert "check the result" in seconds
    if shape == "casts":
        # Of the Casts to bool and from it none is left.
        assert (made["Equal"], made["Where"]) == (30, 30)
    else:
        assert made["Cast"] > 0


def test_rows_tell_ratios_and_growth() -> None:
    def result(nodes: int, what: str, least: float, **info: object) -> dict[str, object]:
        shape = {"shape": "chain", "nodes": nodes, "what": what, **info}
        return {"extra_info": shape, "stats": {"min": least}}

    steps = {"Tidy": 0.25, "Autocast": 0.5}
    told = nodes.rows(
        [
            result(10, "load + save", 1.0),
            result(10, "optimise", 2.0, seconds=steps),
            result(100, "load + save", 10.0),
            result(100, "optimise", 22.0, seconds=steps),
            {"extra_info": {"what": "--help"}, "stats": {"min": 0.5}},
        ]
    )
    assert [line.split(maxsplit=5) for line in list(told)[1:3]] == [
        ["chain", "10", "1.00", "2.00", "2.00", "Autocast 0.50, Tidy 0.25"],
        ["chain", "100", "10.00", "22.00", "2.20", "1.10  Autocast 0.50, Tidy 0.25"],
    ]


def test_a_random_graph_is_cut_and_planned() -> None:
    islands, carriers, whole = placement.timed(placement.graph(100))
    assert min(islands, carriers) > 0
    assert islands + carriers < whole


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


@pytest.fixture
def subject(path: Path) -> Subject:
    return Subject(path, {})


def compared(subject: Subject, convert: Convert) -> peers.Row:
    tools = {"tool": convert}
    rows = list(peers.compare("model", subject, tools, lambda _model: None))
    assert [row.target for row in rows] == ["generic", "ascend950"]
    return rows[0]


def pretend(make: Callable[[set[str]], ir.Model]) -> Convert:
    """A tool that makes a model of the names that it is told to keep."""

    def convert(model: onnx.ModelProto, kept: Collection[str], by_default: bool) -> onnx.ModelProto:
        assert by_default in (False, True)
        assert {*kept} <= {node.name for node in model.graph.node}
        return ir.to_proto(make({*kept}))

    return convert


def test_kept_is_what_computes_in_float32_and_casts_from_what_float16_does_not_hold(
    subject: Subject,
) -> None:
    assert subject.kept == {"log", "whole"}


def test_figures_are_those_of_the_casts_with_a_float_end(subject: Subject) -> None:
    # x, a up, b and f down; y and z up; i to f.
    bytes_ = 2 * 4 + 4 * 4 + 2 * 4 + 2 * 2 + 4 * 4 + 4 * 2 + 4 * 2
    ours = subject.ours(GENERIC, subject.kept)
    assert subject.figures(ours, GENERIC) == Figures(casts=7, bytes=bytes_, narrow=3)
    # int64 to float16 stands for int64 to float32 to float16.
    (whole,) = (node for node in ours.graph if node.name == "whole")
    (three,) = (node for node in ours.graph if node.name == "three")
    whole.attributes["to"] = ir.AttrInt64("to", ir.DataType.FLOAT16)
    whole.outputs[0].type = None
    three.replace_input_with(0, whole.outputs[0])
    for node in reversed(list(ours.graph)):
        if node.op_type == "Cast" and not (
            node.outputs[0].uses() or node.outputs[0].is_graph_output()
        ):
            ours.graph.remove(node, safe=True)
    assert subject.figures(ours, GENERIC) == Figures(casts=7, bytes=bytes_, narrow=3)


def test_a_chain_of_the_target_counts_conversion_by_conversion(subject: Subject) -> None:
    target = get_target("ascend950")
    model = ir.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21]>'
            "g (float[4] x) => (int8[4] y) { y = Cast <to = 3> (x) }"
        )
    )
    assert subject.figures(model, GENERIC) == Figures(casts=1, bytes=4, narrow=0)
    assert subject.figures(model, target) == Figures(casts=2, bytes=12, narrow=0)


def test_a_tool_that_keeps_more_is_compared_on_what_it_keeps(subject: Subject) -> None:
    row = compared(subject, pretend(lambda kept: subject.ours(GENERIC, kept | {"one"})))
    assert row.theirs == row.ours
    assert row.ours.narrow == 2
    assert row.note == "1 more nodes are wide, in both"


def test_a_tool_that_narrows_what_is_kept_is_not_compared(subject: Subject) -> None:
    subject.kept.add("three")
    row = compared(subject, pretend(lambda kept: subject.ours(GENERIC, kept - {"three"})))
    assert row.theirs is None
    assert row.note == "not compared: 1 nodes differ, as three"


def test_a_tool_that_fails_says_why(subject: Subject) -> None:
    def fail(kept: set[str]) -> ir.Model:
        raise ValueError(f"cannot keep\n{len(kept)}")

    row = compared(subject, pretend(fail))
    assert (row.theirs, row.note) == (None, "fails: ValueError: cannot keep 2")


def test_the_converter_of_onnxruntime_is_compared(path: Path) -> None:
    tools, missing = available()
    assert {*tools, *missing} == {"onnxconverter-common", "onnxruntime", "AutoCast"}
    row = compared(Subject(path, {}), tools["onnxruntime"])
    assert row.theirs is not None
    assert row.theirs.bytes >= row.ours.bytes


@pytest.mark.parametrize("by_count", [False, True])
def test_less_is_less_of_what_is_minimised(by_count: bool) -> None:
    ours, fewer, smaller = Figures(3, 30, 1), Figures(2, 40, 1), Figures(4, 20, 1)
    worse = {
        theirs: peers.is_worse(peers.Row("m", "tool", "generic", ours, theirs), by_count=by_count)
        for theirs in (None, ours, fewer, smaller)
    }
    assert worse == {None: False, ours: False, fewer: by_count, smaller: not by_count}


def test_twins_of_a_model_are_equal(path: Path, tmp_path: Path) -> None:
    with Worker() as worker:
        assert twins.differing(path, "all-fp16", worker, tmp_path) == []


def test_a_search_is_told_in_a_row_and_leaves_no_needless_pin(tmp_path: Path) -> None:
    path = tmp_path / "faulty.onnx"
    onnx.save(network(4, [(2, "cancellation")]), path)
    np.savez(path.with_suffix(".npz"), x=sample()["x"])
    result, seconds = search.found(path, "all-fp16", 1e-2)
    assert result is not None
    assert seconds > 0
    assert search.needless(path, result) == 0
    assert search.row(path, "all-fp16", minimal=False, peer=False).startswith("faulty | all-fp16 |")


def test_a_size_is_measured_in_bounded_memory(tmp_path: Path) -> None:
    size = sizes.Size(0.2, 48, (1024, 1024))
    told = sizes.row(size, tmp_path, runs=1, peers=False).split()
    assert told[-1] == "yes"
    assert float(told[-2]) < 300 + size.tensor_bytes / 1e6
