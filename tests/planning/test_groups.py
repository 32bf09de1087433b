"""A group is one type variable of one node; only float32 ones are listed."""

from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_nodes
from onnxcast.planning.grouping import find_groups
from onnxcast.planning.groups import Group, Kind
from tests.planning.plans import load


def groups(text: str, opset: int = 21) -> list[Group]:
    model = load(text, opset)
    return find_groups(main_nodes(model), ElementTypes(model))


def described(found: list[Group]) -> list[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    return [(g.node.op_type, g.variable, g.operands, g.results) for g in found]


def test_operands_and_results_of_one_variable_are_one_group() -> None:
    text = "g (float[2,2] x, bool[2] c) => (float[2,2] y) { h = MatMul (x, x) y = Where(c, h, x) }"
    assert described(groups(text)) == [
        ("MatMul", "T", (0, 1), (0,)),
        ("Where", "T", (1, 2), (0,)),
    ]


def test_variables_of_one_node_are_groups_of_their_own() -> None:
    text = """g (float[2,2] x, float[2] s) => (float[2,2] y, float[2,1] m) {
        y, m = LayerNormalization (x, s)
    }"""
    assert described(groups(text)) == [
        ("LayerNormalization", "T", (0, 1), (0,)),
        ("LayerNormalization", "U", (), (1,)),
    ]


def test_what_is_not_float32_is_no_group() -> None:
    text = """g (float16[2] h, int64[2] i, double[2] d) => (float16[2] y, int64[2] j, double[2] e) {
        y = Relu (h) j = Neg (i) e = Exp (d)
    }"""
    assert groups(text) == []


def test_a_constant_is_an_operand_and_no_group() -> None:
    text = "g () => (float[1] y) { k = Constant <value = float[1] {1}> () y = Relu (k) }"
    assert described([g for g in groups(text) if g.node.op_type != "Constant"]) == [
        ("Relu", "T", (0,), (0,))
    ]


def test_left_out_operands_and_results_do_not_count() -> None:
    text = """g (float[2] x, float h, float[2,2] m, float[2] s) => (float[2] y, float[2,1] d) {
        y = Clip (x, , h)
        n, , d = LayerNormalization (m, s)
    }"""
    assert described(groups(text)) == [
        ("Clip", "T", (0, 2), (0,)),
        ("LayerNormalization", "T", (0, 1), (0,)),
        ("LayerNormalization", "U", (), (2,)),
    ]


def test_a_variadic_operand_is_of_one_group() -> None:
    text = "g (float[2] x) => (float[6] y) { y = Concat <axis = 0> (x, x, x) }"
    assert described(groups(text)) == [("Concat", "T", (0, 1, 2), (0,))]


def test_kinds_tell_how_far_the_schema_reaches() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        a = local.Unknown (x)
        b = local.F (x)
        y = If (c) <
            then_branch = then () => (float[2] t) { t = Relu (b) },
            else_branch = other () => (float[2] e) { e = Neg (b) }
        >
    }
    <opset_import: ["": 21], domain: "local"> F (u) => (v) { v = Abs (u) }"""
    found = [(g.node.op_type, g.kind) for g in groups(text)]
    assert found == [
        ("Unknown", Kind.OPAQUE),
        ("F", Kind.CALL),
        ("If", Kind.TIED),
        ("Relu", Kind.SCHEMA),
        ("Neg", Kind.SCHEMA),
    ]


def test_sequences_and_optionals_are_groups_that_no_cast_reaches() -> None:
    text = """g (float[2] x, int64 k) => (float[2] y) {
        s = SequenceConstruct (x) a = SequenceAt (s, k) o = Optional (a)
        b = OptionalGetElement (o) y = Relu (b)
    }"""
    found = {g.node.op_type: g.tensors for g in groups(text) if g.results}
    assert found == {
        "SequenceConstruct": False,
        "SequenceAt": True,
        "Optional": False,
        "OptionalGetElement": False,
        "Relu": True,
    }


def test_a_producer_comes_before_its_readers_in_every_scope() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        h = Relu (x)
        y = If (c) <
            then_branch = then () => (float[2] t) { u = Neg (h) t = Abs (u) },
            else_branch = other () => (float[2] e) { e = Neg (h) }
        >
    }"""
    seen: set[str] = {"x"}
    for group in groups(text):
        given = {body.outputs[index].name for body, index in group.exits}
        assert {value.name for value in group.operand_values()} - given <= seen
        seen |= {value.name or "" for value in group.result_values()}
