import onnx_ir as ir
import pytest

from onnxcast import formats
from onnxcast.diagnostics import Code
from onnxcast.graph.walk import model_graphs
from onnxcast.passes import FoldCastsPass
from onnxcast.planning import is_planned_rounding, pin
from onnxcast.policy import CastFolding
from onnxcast.targets import get_target


def test_each_fold_is_a_finding_that_names_the_pair() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> agraph (float16[2] x) => (bfloat16[2] y) {'
        " a = Cast <to = 1> (x) b = Cast <to = 1> (a) y = Cast <to = 16> (b) }"
    )
    fold = FoldCastsPass()
    fold(model)
    assert [(finding.code, finding.message) for finding in fold.findings] == [
        (Code.CAST_IDENTITY_DROPPED, "float32 to itself: b now comes from a"),
        (Code.CAST_FOLDED, "float16 to float32 to bfloat16: y now comes from x"),
    ]
    fold(model)
    assert fold.findings == []


@pytest.mark.parametrize(
    ("chain", "folded"),
    [
        ("float16 float32 bfloat16", False),  # a5 has no such conversion, so none is made
        ("float16 float32 float16", True),  # none is left
        ("uint8 float32 float16", True),
        ("bool int64 float32", True),  # no target converts bool: it becomes a choice
        ("int8 int32 float32", False),
    ],
)
def test_no_cast_is_made_that_the_target_lacks(chain: str, folded: bool) -> None:
    source, middle, target = chain.split()
    numbers = {"float16": 10, "float32": 1, "bfloat16": 16, "int64": 7, "int32": 6}
    names = {"float32": "float"}
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    agraph ({source}[2] x) => ({names.get(target, target)}[2] y) {{
        a = Cast <to = {numbers[middle]}> (x) y = Cast <to = {numbers[target]}> (a)
    }}"""
    model = ir.from_onnx_text(text)
    assert FoldCastsPass(get_target("a5").is_native)(model).modified == folded
    assert FoldCastsPass()(ir.from_onnx_text(text)).modified, "without a target all of them fold"


def parsed(body: str, inputs: str, outputs: str, opset: int = 21) -> ir.Model:
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )


def turned() -> ir.Model:
    """A Transpose between exact Casts."""
    return parsed(
        "a = Cast <to = 1> (x) [turn] b = Transpose (a) y = Cast <to = 10> (b)",
        "float16[2,3] x",
        "float16[3,2] y",
    )


def casts(model: ir.Model) -> int:
    return sum(node.op_type == "Cast" for graph in model_graphs(model) for node in graph)


def test_a_move_is_a_finding_that_names_the_op_and_the_formats() -> None:
    fold = FoldCastsPass()
    fold(turned())
    assert [(finding.code, finding.node, finding.message) for finding in fold.findings] == [
        (
            Code.CAST_MOVED,
            "turn",
            "turn runs in float16, which its operands come from, not float32",
        ),
        (Code.CAST_FOLDED, "", "float16 to float32 to float16: y now comes from b"),
    ]


def test_a_merge_is_a_finding_that_names_both_values() -> None:
    fold = FoldCastsPass()
    fold(
        parsed(
            "a = Cast <to = 10> (x) b = Cast <to = 10> (x) y = Add (a, b)",
            "float[2] x",
            "float16[2] y",
        )
    )
    assert [(finding.code, finding.message) for finding in fold.findings] == [
        (Code.CAST_MERGED, "float32 to float16 again: b now comes from a")
    ]


def test_nothing_moves_past_a_pinned_node() -> None:
    model = turned()
    pin(model.graph[1], "reaches 1e6")
    assert not FoldCastsPass()(model).modified


def test_nothing_moves_past_what_is_kept() -> None:
    fold = FoldCastsPass(keeps=lambda node: node.name == "turn")
    assert not fold(turned()).modified


def test_nothing_moves_past_a_marked_node() -> None:
    model = turned()
    model.graph[1].metadata_props["onnxcast.operands"] = "0:float32r"
    assert not FoldCastsPass()(model).modified


@pytest.mark.parametrize(("last", "moved"), [(16, False), (1, False), (10, True)])
def test_nothing_moves_to_where_the_target_lacks_the_cast(last: int, moved: bool) -> None:
    model = parsed(
        f"a = Cast <to = 1> (x) b = Transpose (a) y = Cast <to = {last}> (b)",
        "float16[2,3] x",
        f"{ {16: 'bfloat16', 1: 'float', 10: 'float16'}[last] }[3,2] y",
    )
    moves = FoldCastsPass(get_target("a5").is_native)  # which lacks float16 to bfloat16
    moves(model)
    assert (model.graph[0].op_type == "Transpose") == moved


def test_an_op_without_sizes_moves_by_the_number_of_casts() -> None:
    model = parsed(
        "a = Cast <to = 1> (x) b = Expand (a, s) z = Relu (b) c = Neg (b) y = Cast <to = 10> (c)",
        "float16[N] x, int64[k] s",
        "float16[M] y, float[M] z",
    )
    model.graph.inputs[0].shape = None
    FoldCastsPass()(model)
    assert casts(model) == 1


def test_long_rows_of_ops_move_in_one_go() -> None:
    count = 300
    rows = [f"a{k + 1} = Neg (a{k}) y{k} = Cast <to = 10> (a{k + 1})" for k in range(count)]
    model = parsed(
        f"a0 = Cast <to = 1> (x) {' '.join(rows)}",
        "float16[2] x",
        ", ".join(f"float16[2] y{k}" for k in range(count)),
    )
    fold = FoldCastsPass()
    fold(model)
    assert casts(model) == 0
    assert sum(finding.code is Code.CAST_MOVED for finding in fold.findings) == count


# What a round trip loses, by source, middle and attributes of the Cast to it.
TRIPS = {
    "float32 bfloat16": "the rounding to 8 significand bits",
    "float32 float16": "the rounding to 11 significand bits and the limit of 65504 and the "
    "underflow below 2**-24",
    "bfloat16 float16": "the limit of 65504 and the underflow below 2**-24",
    "float16 bfloat16": "the rounding to 8 significand bits",
    "float32 float8e4m3fn": "the rounding to 4 significand bits and the limit of 448 and the "
    "underflow below 2**-9",
    "float8e5m2 float8e5m2fnuz": "what becomes of signs",
    "float16 float8e5m2": "the rounding to 3 significand bits",
    "float64 float32": "the rounding to 24 significand bits and the limit of 3.40282e+38 and the "
    "underflow below 2**-149",
}


@pytest.mark.parametrize("trip", TRIPS)
def test_a_narrowing_round_trip_is_dropped_on_request_and_says_what_it_loses(trip: str) -> None:
    source, middle = map(formats.by_name, trip.split())
    assert source.dtype is not None
    assert middle.dtype is not None
    name = {"float32": "float", "float64": "double"}.get(source.name, source.name)
    body = f"a = Cast <to = {int(middle.dtype)}> (x) b = Cast <to = {int(source.dtype)}> (a)"
    model = parsed(f"{body} y = Neg (b)", f"{name}[4] x", f"{name}[4] y")
    assert not FoldCastsPass()(model).modified
    fold = FoldCastsPass(folding=CastFolding.DROP_NARROWING)
    assert fold(model).modified
    assert casts(model) == 0
    assert [(finding.code, finding.message) for finding in fold.findings] == [
        (
            Code.CAST_ROUNDING_DROPPED,
            f"{source} to {middle} to {source} dropped: loses {TRIPS[trip]}: b now comes from x",
        )
    ]


@pytest.mark.parametrize(
    ("source", "middle", "target"),
    [
        ("float", 6, 1),  # to int32, which truncates
        ("float", 9, 1),  # to bool, which tests
        ("int64", 6, 7),  # to int32, which wraps
        ("float", 8, 1),  # to a string and back
        ("float", 16, 10),  # to bfloat16, and on to float16
        ("double", 1, 10),  # to float32, and on to float16
    ],
)
def test_no_other_inexact_pair_is_dropped_on_request(source: str, middle: int, target: int) -> None:
    names = {1: "float", 7: "int64", 10: "float16"}
    model = parsed(
        f"a = Cast <to = {middle}> (x) y = Cast <to = {target}> (a)",
        f"{source}[4] x",
        f"{names[target]}[4] y",
    )
    assert not FoldCastsPass(folding=CastFolding.DROP_NARROWING)(model).modified


def test_what_a_fold_makes_is_looked_at_before_what_reads_it() -> None:
    # The exact pair behind the float8 makes a round trip of it, which goes; were the next pair
    # folded first, the float8 would stay.
    first = "a = Cast <to = 17> (x) b = Cast <to = 11> (a)"
    second = "c = Cast <to = 10> (b) y = Cast <to = 1> (c)"
    model = parsed(f"{first} {second}", "float16[4] x", "float[4] y")
    FoldCastsPass(folding=CastFolding.DROP_NARROWING)(model)
    assert casts(model) == len(model.graph) == 1
    assert model.graph[0].inputs[0] is model.graph.inputs[0]


def test_a_dropped_round_trip_leaves_the_narrow_value_to_its_other_readers() -> None:
    model = parsed(
        "a = Cast <to = 16> (x) b = Cast <to = 1> (a) y = Neg (b) z = Abs (a)",
        "float[4] x",
        "float[4] y, bfloat16[4] z",
    )
    FoldCastsPass(folding=CastFolding.DROP_NARROWING)(model)
    assert [node.op_type for node in model.graph] == ["Cast", "Neg", "Abs"]
    assert model.graph[1].inputs[0] is model.graph.inputs[0]


def test_a_marked_round_trip_outlasts_a_run_that_drops_them() -> None:
    model = parsed("a = Cast <to = 17> (x) y = Cast <to = 1> (a)", "float[4] x", "float[4] y")
    marking = FoldCastsPass(marks=True)
    assert marking(model).modified
    assert not marking(model).modified
    assert [is_planned_rounding(node) for node in model.graph] == [False, True]
    assert not FoldCastsPass(folding=CastFolding.DROP_NARROWING)(model).modified
