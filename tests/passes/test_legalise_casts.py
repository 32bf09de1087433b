import onnx_ir as ir
import pytest

from onnxcast.diagnostics import Code
from onnxcast.errors import RefusedError
from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32, INT8
from onnxcast.passes import LegaliseCastsPass
from onnxcast.planning import cast_costs
from onnxcast.targets import NativeCast, Target, get_target
from tests import golden


@golden.cases("legalise_casts")
def test_legalise_casts(case: golden.Case, update: bool) -> None:
    target = get_target(case.options["target"])
    exact = case.options.get("bridges") == "exact"
    golden.check(case, LegaliseCastsPass(target, exact_bridges=exact), update=update)


def model(text: str, opset: int = 21) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : {opset}]> agraph {text}')


ILLEGAL = """(int32[2] x, uint8[2] u, float16[2] h) => (uint32[2] a, float[2] b, int64[2] c) {
    [first] a = Cast <to = 12> (x)
    [second] b = Cast <to = 1> (u)
    c = Cast <to = 7> (h)
}"""


def test_all_casts_without_a_chain_are_refused_together_on_one_line() -> None:
    made = model(ILLEGAL)
    before = golden.text_of(made)
    with pytest.raises(RefusedError) as caught:
        LegaliseCastsPass(get_target("a5")).call(made)
    text = str(caught.value)
    assert text.startswith("ascend950 (a5) cannot do 3 Casts of the model: ")
    assert "node 'first' int32 to uint32 (only int32 > int16 > uint32" in text
    assert "node 'second' uint8 to float32 (" in text
    assert "node 'Cast(-> c)' float16 to int64 (" in text
    assert "\n" not in text
    assert golden.text_of(made) == before, "nothing is changed"


def test_those_without_a_chain_may_be_kept_with_a_finding_each() -> None:
    made = model(ILLEGAL)
    before = golden.text_of(made)
    legalise = LegaliseCastsPass(get_target("a5"), keep_illegal=True)
    assert not legalise(made).modified
    assert golden.text_of(made) == before
    assert [each.code for each in legalise.findings] == [Code.CAST_ILLEGAL] * 3
    assert legalise.findings[0].message.startswith("node 'first' int32 to uint32 (")
    assert legalise.findings[0].message.endswith(" stays")
    assert legalise.findings[0].node == "first"


def test_exact_bridges_leave_what_nothing_leads_to() -> None:
    with pytest.raises(RefusedError, match="cannot do 1 Cast of the model: node 'first' int32"):
        LegaliseCastsPass(get_target("a5"), exact_bridges=True).call(model(ILLEGAL))


@pytest.mark.parametrize(
    ("source", "to", "refused"),
    [
        ("int32", 16, "int32 > float32 > bfloat16: double rounding"),
        ("int64", 5, "int64 > float32 > int16: wraps differently"),
        ("int32", 10, ""),  # it rounds only what overflows
        ("float16", 16, ""),
        ("float", 10, ""),
    ],
)
def test_chains_that_may_differ_from_one_cast_are_refused_on_request(
    source: str, to: int, refused: str
) -> None:
    names = {16: "bfloat16", 5: "int16", 10: "float16"}
    text = f"({source}[2] x) => ({names[to]}[2] y) {{ [c] y = Cast <to = {to}> (x) }}"
    legalise = LegaliseCastsPass(get_target("a5"), exact_only=True)
    if not refused:
        legalise(model(text))
        return
    with pytest.raises(RefusedError) as caught:
        legalise.call(model(text))
    assert refused in str(caught.value)


def test_costs_are_those_of_all_conversions() -> None:
    legalise = LegaliseCastsPass(get_target("a5"))
    made = model(
        """(int32[2,n,3] x, float[4] f) => (float16[2,n,3] y, float16[4] z) {
            [long] y = Cast <to = 10> (x)
            [short] z = Cast <to = 10> (f)
        }"""
    )
    legalise(made)
    (route,) = legalise.routes
    # 6 elements of 4 and 2 bytes, as the dimension that is not known counts 1.
    assert (route.node.name, str(route.chain), route.bytes) == (
        "long",
        "int32 > float32 > float16",
        36,
    )
    assert route.stands
    assert cast_costs(made, get_target("a5")) == (3, 3, 36 + 8)
    (finding,) = legalise.findings
    assert finding.code is Code.CAST_LEGALISED
    assert finding.message == "long became 2 Casts: int32 > float32 > float16 (single rounding)"


def test_a_chain_that_begins_by_undoing_the_cast_before_it_begins_behind_that() -> None:
    text = "(float16[2] x) => (int8[2] y) { v = Cast <to = 1> (x) [c] y = Cast <to = 3> (v) }"
    made = model(text)
    # float32 > float16 > int8 may round twice, but here all of float32 came from float16.
    legalise = LegaliseCastsPass(get_target("a5"), exact_only=True)
    assert legalise(made).modified
    (cast,) = (node for node in made.graph if node.name == "c")
    assert cast.inputs[0] is made.graph.inputs[0]
    (route,) = legalise.routes
    assert route.chain.described == "float16 > int8 (exact)"
    assert not legalise(made).modified


def test_no_chain_goes_through_a_type_that_the_opset_lacks() -> None:
    casts = (NativeCast(FLOAT32, BFLOAT16), NativeCast(BFLOAT16, INT8))
    by_bfloat16 = Target(name="mine", preferred=FLOAT16, casts=casts)
    text = "(float[2] x) => (int8[2] y) { y = Cast <to = 3> (x) }"
    assert LegaliseCastsPass(by_bfloat16)(model(text, opset=13)).modified
    with pytest.raises(RefusedError, match="mine cannot do 1 Cast"):
        LegaliseCastsPass(by_bfloat16).call(model(text, opset=12))


def test_a_cast_to_the_same_type_is_for_the_folding_before() -> None:
    text = "(float[2] x) => (float[2] y) { y = Cast <to = 1> (x) }"
    with pytest.raises(RefusedError, match="float32 to float32"):
        LegaliseCastsPass(get_target("a5")).call(model(text))


def test_an_unknown_type_cannot_be_judged() -> None:
    text = """(float[2] x) => (float16[2] y) { u = other.Unknown (x) [c] y = Cast <to = 10> (u) }"""
    made = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 21, "other" : 1]> agraph {text}'
    )
    with pytest.raises(RefusedError, match="node 'c' an unknown type to float16"):
        LegaliseCastsPass(get_target("a5")).call(made)


@pytest.mark.parametrize("cast", ["Cast <to: int = @t> (x)", "CastLike (x, k)"])
def test_casts_of_which_the_call_decides_are_refused(cast: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    agraph (int64[2] x, float16[2] k) => (float16[2] y) {{ y = l.F <t = 10> (x, k) }}
    <domain: "l", opset_import: ["" : 21]> F <t> (x, k) => (y) {{ [c] y = {cast} }}"""
    with pytest.raises(RefusedError, match="node 'c' int64 to an unknown type"):
        LegaliseCastsPass(get_target("a5")).call(ir.from_onnx_text(text))


def test_casts_from_and_to_bool_are_refused_where_they_could_not_be_lowered() -> None:
    text = "(bool[2] x) => (float[2] y) { [c] y = Cast <to = 1> (x) }"
    with pytest.raises(RefusedError, match="opset 8 has nothing in its place; raise it to 13"):
        LegaliseCastsPass(get_target("a5")).call(model(text, opset=8))
