"""Names beat ops, ops beat the function, a name beats a pattern, and nothing is asked in vain."""

from collections.abc import Iterable
from typing import Any

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxcast.errors import InputError
from onnxcast.policy import Choice, Chooser, Selection, make_policy

KINDS = ["keep_ops", "keep_nodes", "narrow_ops", "narrow_nodes"]


def selection(
    *,
    keep_ops: Iterable[str] = (),
    keep_nodes: Iterable[str] = (),
    narrow_ops: Iterable[str] = (),
    narrow_nodes: Iterable[str] = (),
    choose: Chooser | None = None,
) -> Selection:
    return Selection.of(
        keep_ops=keep_ops,
        keep_nodes=keep_nodes,
        narrow_ops=narrow_ops,
        narrow_nodes=narrow_nodes,
        choose=choose,
    )


def node(op: str, name: str | None = None, domain: str = "") -> ir.Node:
    made = ir.node(op, [ir.Value(name="a")], domain=domain, name=name)
    made.outputs[0].name = "result"
    return made


RELU = node("Relu", "/encoder/layer1/act")


def wish(chosen: Selection, of: ir.Node = RELU) -> str | None:
    choice = chosen.choice(of)
    return None if choice is None else choice.wish


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("/encoder/layer1/act", True),
        ("/encoder/*", True),
        ("/encoder/layer[0-9]/act", True),
        ("/encoder/layer?/act", True),
        ("*", True),
        ("/encoder", False),
        ("/ENCODER/*", False),
        ("encoder*", False),
        ("re:/encoder/layer[0-9]+/.*", True),
        ("re:.*act", True),
        ("re:act", False),
        ("re:/encoder", False),
        ("re:/(encoder|decoder)/.*", True),
        ("re:", False),
    ],
)
def test_a_pattern_must_match_the_whole_name(pattern: str, matches: bool) -> None:
    assert wish(selection(keep_nodes=[pattern])) == ("wide" if matches else None)
    assert wish(selection(narrow_nodes=[pattern])) == ("narrow" if matches else None)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("Relu", True), ("*lu", True), ("re:R.*", True), ("re:R", False), ("relu", False)],
)
def test_an_op_is_matched_by_the_same_patterns(pattern: str, matches: bool) -> None:
    assert wish(selection(keep_ops=[pattern])) == ("wide" if matches else None)
    assert wish(selection(narrow_ops=[pattern])) == ("narrow" if matches else None)


def test_an_op_of_another_domain_bears_it_in_its_name() -> None:
    gelu = node("Gelu", domain="com.microsoft")
    assert wish(selection(keep_ops=["Gelu"]), gelu) is None
    assert wish(selection(keep_ops=["com.microsoft.*"]), gelu) == "wide"


NAMES = st.text(min_size=1).filter(lambda name: not name.startswith("re:"))


@given(NAMES)
def test_a_name_is_a_pattern_of_itself_whatever_is_in_it(name: str) -> None:
    assert wish(selection(keep_nodes=[name]), node("Relu", name)) == "wide"


@given(NAMES.filter(lambda name: name != "*"))
def test_the_name_itself_beats_any_pattern(name: str) -> None:
    named = node("Relu", name)
    assert wish(selection(keep_nodes=[name], narrow_nodes=["*", "re:(?s:.*)"]), named) == "wide"
    assert wish(selection(keep_nodes=["*", "re:(?s:.*)"], narrow_nodes=[name]), named) == "narrow"


def test_an_op_itself_beats_a_pattern() -> None:
    assert wish(selection(keep_ops=["*"], narrow_ops=["Relu"])) == "narrow"
    assert wish(selection(keep_ops=["Relu"], narrow_ops=["re:.*"])) == "wide"


def test_a_node_without_a_name_is_matched_by_no_node_pattern() -> None:
    for pattern in ("*", "re:.*"):
        assert wish(selection(keep_nodes=[pattern]), node("Relu")) is None
        assert wish(selection(keep_nodes=[pattern]), node("Relu", "")) is None


def test_a_name_beats_an_op() -> None:
    kept = selection(keep_nodes=["/enc*"], narrow_ops=["Relu"]).choice(RELU)
    assert kept == Choice("wide", "node", "/encoder/layer1/act")
    narrowed = selection(keep_ops=["Relu"], narrow_nodes=["/enc*"]).choice(RELU)
    assert narrowed == Choice("narrow", "node", "/encoder/layer1/act")


def test_an_op_beats_the_function_which_is_not_asked() -> None:
    asked: list[ir.Node] = []

    def wide(each: ir.Node) -> str:
        asked.append(each)
        return "wide"

    chosen = selection(narrow_ops=["Re*"], narrow_nodes=["first"], choose=wide)
    assert chosen.choice(RELU) == Choice("narrow", "op", "Relu")
    assert chosen.choice(node("Exp", "first")) == Choice("narrow", "node", "first")
    assert asked == []
    exp = node("Exp", "second")
    assert chosen.choice(exp) == Choice("wide", "policy", "second")
    assert asked == [exp]


def test_the_function_may_leave_it_to_the_rules() -> None:
    assert selection(choose=lambda _node: None).choice(RELU) is None
    assert selection().choice(RELU) is None


def test_a_node_without_a_name_is_told_by_its_result() -> None:
    chosen = selection(choose=lambda _node: "narrow").choice(node("Relu"))
    assert chosen == Choice("narrow", "policy", "Relu(-> result)")


def text_of(caught: pytest.ExceptionInfo[InputError]) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("answer", ["wid", "NARROW", "", 1, True, False, ["narrow"]], ids=repr)
def test_another_answer_is_an_error_that_names_the_node(answer: object) -> None:
    with pytest.raises(InputError) as caught:
        selection(choose=lambda _node: answer).choice(RELU)
    text = text_of(caught)
    assert f"policy(/encoder/layer1/act) answers {answer!r}" in text
    assert "'narrow', 'wide' or None is wanted" in text


@pytest.mark.parametrize(
    ("kept", "narrowed", "kind"),
    [
        ({"keep_ops": ["Relu"]}, {"narrow_ops": ["Relu"]}, "op 'Relu'"),
        ({"keep_ops": ["Re*"]}, {"narrow_ops": ["re:.*u"]}, "op 'Relu'"),
        (
            {"keep_nodes": ["/encoder/*"]},
            {"narrow_nodes": ["*/act"]},
            "node '/encoder/layer1/act'",
        ),
    ],
)
def test_a_contradiction_is_an_error(
    kept: dict[str, Any], narrowed: dict[str, Any], kind: str
) -> None:
    with pytest.raises(InputError) as caught:
        selection(**kept, **narrowed).choice(RELU)
    assert f"{kind} is to be kept wide and to be narrowed" in text_of(caught)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["re:[", "re:(", "re:*"])
def test_what_is_no_regular_expression_is_an_error(kind: str, pattern: str) -> None:
    options: dict[str, Any] = {kind: ["Relu", pattern]}
    with pytest.raises(InputError) as caught:
        selection(**options)
    text = text_of(caught)
    assert f"{kind} {pattern!r}" in text
    assert "no regular expression" in text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given_", ["Relu", 7, None, [1], ["Relu", None]], ids=repr)
def test_what_is_no_list_of_patterns_is_an_error(kind: str, given_: object) -> None:
    options: dict[str, Any] = {kind: given_}
    with pytest.raises(InputError) as caught:
        selection(**options)
    assert f"{kind} {given_!r}: a list of patterns is wanted" in text_of(caught)


@pytest.mark.parametrize("given_", ["wide", 7, ["narrow"]], ids=repr)
def test_a_policy_that_cannot_be_called_is_an_error(given_: Any) -> None:
    with pytest.raises(InputError, match="a function of a node is wanted"):
        selection(choose=given_)


MODEL = [RELU, node("Sigmoid", "/decoder/gate"), node("Exp")]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (
            {"keep_ops": ["Sigmod"]},
            "no op of the model matches 'Sigmod' to be kept wide; nearest: ",
        ),
        ({"narrow_ops": ["Sigmod"]}, "no op of the model matches 'Sigmod' to be narrowed; "),
        ({"narrow_ops": ["relu"]}, "'relu' to be narrowed; nearest: Relu"),
        ({"narrow_ops": ["Exp", "Lelu"]}, "'Lelu' to be narrowed; nearest: Relu"),
        (
            {"keep_nodes": ["/decoder/gat"]},
            "no node of the model matches '/decoder/gat' to be kept wide; nearest: /decoder/gate",
        ),
        (
            {"narrow_nodes": ["/decoder/gat"]},
            "no node of the model matches '/decoder/gat' to be narrowed; nearest: /decoder/gate",
        ),
        ({"narrow_nodes": ["re:/decoder"]}, "nearest: /decoder/gate"),
    ],
)
def test_a_pattern_that_matches_nothing_names_the_nearest(
    options: dict[str, Any], found: str
) -> None:
    with pytest.raises(InputError) as caught:
        selection(**options).check(MODEL)
    assert found in text_of(caught)


def test_where_nothing_is_near_nothing_is_named() -> None:
    with pytest.raises(InputError) as caught:
        selection(narrow_nodes=["qqq"]).check(MODEL)
    assert "nearest" not in text_of(caught)


def test_patterns_that_match_something_pass() -> None:
    selection(
        keep_ops=["Re*"], keep_nodes=["re:.*gate"], narrow_ops=["Exp"], narrow_nodes=["/enc*"]
    ).check(MODEL)


def test_a_policy_takes_the_names_that_other_tools_use() -> None:
    ours = make_policy(keep_ops=["Relu", "Exp"], keep_nodes=["/head/*"])
    theirs = make_policy(op_block_list=["Relu", "Exp"], node_block_list=["/head/*"])
    assert ours.selection == theirs.selection
    assert theirs.selection.keep_ops == {"Relu", "Exp"}
    assert theirs.selection.keep_nodes == {"/head/*"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"keep_ops": ["Relu"], "op_block_list": ["Exp"]}, ["keep_ops", "op_block_list"]),
        ({"keep_ops": ["Relu"], "op_block_list": []}, ["keep_ops", "op_block_list"]),
        ({"keep_nodes": ["a"], "node_block_list": ["a"]}, ["keep_nodes", "node_block_list"]),
    ],
)
def test_both_names_together_are_an_error(options: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        make_policy(**options)
    assert f"{names[0]} together with {names[1]}" in text_of(caught)


@pytest.mark.parametrize("kind", ["op_block_list", "node_block_list"])
def test_a_string_is_no_block_list(kind: str) -> None:
    options: dict[str, Any] = {kind: "Relu"}
    with pytest.raises(InputError, match="a list of patterns is wanted"):
        make_policy(**options)
