"""Element types of graph inputs and outputs are said in several ways and mean one thing."""

from typing import Any

import pytest

from onnxcast.errors import InputError
from onnxcast.formats import BFLOAT16, FLOAT8E4M3FN, FLOAT16, FLOAT32, INT64, Format, float32r
from onnxcast.policy import DTYPES, IoTypes, Policy, Scope, make_policy


def io_types(given: Any, token: str = "all-fp16") -> IoTypes:
    return make_policy(fp32_cast=token, io_types=given).io_types


def text_of(caught: pytest.ExceptionInfo[InputError]) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("given", "rest", "named"),
    [
        ("keep", None, {}),
        ("narrow", FLOAT16, {}),
        ("logits=bf16", None, {"logits": BFLOAT16}),
        ("logits=float32", None, {"logits": FLOAT32}),
        ("x=fp16,y=fp8e4", None, {"x": FLOAT16, "y": FLOAT8E4M3FN}),
        (" x=fp16 , y=bf16 ", None, {"x": FLOAT16, "y": BFLOAT16}),
        ("narrow,logits=fp32", FLOAT16, {"logits": FLOAT32}),
        ("keep,logits=fp16", None, {"logits": FLOAT16}),
        ("a=b=fp16", None, {"a=b": FLOAT16}),
        ({"x": "fp16", "y": "bfloat16"}, None, {"x": FLOAT16, "y": BFLOAT16}),
        ({"a,b": "fp16"}, None, {"a,b": FLOAT16}),
        ({"narrow": "fp16"}, None, {"narrow": FLOAT16}),
        ({}, None, {}),
    ],
    ids=repr,
)
def test_types_are_read(given: Any, rest: Format | None, named: dict[str, Format]) -> None:
    assert io_types(given) == IoTypes(rest, named)


@pytest.mark.parametrize(
    ("token", "format_"),
    [("all", BFLOAT16), ("matmult-fp16", FLOAT16), ("inputs-fp8e4", FLOAT8E4M3FN)],
)
def test_narrow_is_the_format_of_the_token(token: str, format_: Format) -> None:
    assert io_types("narrow", token) == IoTypes(format_)


@pytest.mark.parametrize("name", [name for name, each in DTYPES.items() if each.dtype is not None])
def test_every_dtype_that_a_value_can_have_may_be_named(name: str) -> None:
    assert io_types(f"x={name}").wanted("x") == DTYPES[name]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "float16",
        "narow",
        "x=fp61",
        "x=",
        "=fp16",
        "x",
        "x=fp16,",
        "x=fp16,narrow",
        "narrow,keep",
        "x=fp32r",
        "x=float32r",
        "x=FP16",
        {"x": "fp32r"},
        {"x": None},
        {"": "fp16"},
        7,
        None,
        True,
        ["narrow"],
    ],
    ids=repr,
)
def test_anything_else_is_an_error_that_lists_the_formats(given: object) -> None:
    with pytest.raises(InputError) as caught:
        io_types(given)
    text = text_of(caught)
    assert "keep, narrow or NAME=FORMAT is wanted" in text
    for known in ("fp32", "fp16", "bf16", "fp8e4"):
        assert known in text


@pytest.mark.parametrize("token", ["none", "all-fp32r", "matmult-fp32r", "inputs-fp32r"])
@pytest.mark.parametrize("given", ["narrow", "narrow,x=fp16"])
def test_narrow_wants_a_narrow_type(token: str, given: str) -> None:
    with pytest.raises(InputError) as caught:
        io_types(given, token)
    assert "there is no narrow type to declare" in text_of(caught)
    assert io_types("x=fp16", token) == IoTypes(None, {"x": FLOAT16})


def test_what_is_named_beats_the_rest() -> None:
    chosen = IoTypes(FLOAT16, {"logits": FLOAT32, "x": BFLOAT16})
    assert [chosen.wanted(name) for name in ("logits", "x", "y")] == [None, BFLOAT16, FLOAT16]
    assert IoTypes().wanted("x") is None


@pytest.mark.parametrize(
    ("chosen", "changes"),
    [
        (IoTypes(), False),
        (IoTypes(None, {"x": FLOAT32}), False),
        (IoTypes(None, {"x": FLOAT32, "y": FLOAT16}), True),
        (IoTypes(FLOAT16), True),
        (IoTypes(FLOAT16, {"x": FLOAT32}), True),
    ],
)
def test_it_is_known_whether_anything_may_change(chosen: IoTypes, changes: bool) -> None:
    assert chosen.changes is changes


INTERFACE = {"tokens": INT64, "pixels": FLOAT32, "logits": FLOAT32, "cache": None}


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        IoTypes(None, {"logit": FLOAT16}).check(INTERFACE)
    assert "no graph input or output 'logit'; nearest: logits" in text_of(caught)


@pytest.mark.parametrize(("name", "kind"), [("tokens", "int64"), ("cache", "no tensor")])
def test_only_float32_can_change(name: str, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        IoTypes(None, {name: FLOAT16}).check(INTERFACE)
    assert f"{name!r} is {kind}, and only float32" in text_of(caught)


def test_what_has_the_type_already_may_be_named() -> None:
    IoTypes(None, {"pixels": FLOAT16, "logits": FLOAT32}).check(INTERFACE)
    IoTypes(None, {"pixels": FLOAT16}).check({"pixels": FLOAT16})


@pytest.mark.parametrize(
    ("kept", "same"),
    [
        (True, "keep"),
        (False, "narrow"),
        (["logits"], "narrow,logits=fp32"),
        (("a", "b"), "narrow,a=fp32,b=fp32"),
        ([], "narrow"),
    ],
    ids=repr,
)
def test_keep_io_types_says_it_as_other_tools_do(kept: Any, same: str) -> None:
    policy = make_policy(fp32_cast="all-fp16", keep_io_types=kept)
    assert policy == make_policy(fp32_cast="all-fp16", io_types=same)


@pytest.mark.parametrize("kept", ["logits", "True", 1.5, 0], ids=repr)
def test_keep_io_types_takes_no_string(kept: Any) -> None:
    with pytest.raises(InputError) as caught:
        make_policy(fp32_cast="all-fp16", keep_io_types=kept)
    assert f"keep_io_types {kept!r}: True, False or a list of names" in text_of(caught)


@pytest.mark.parametrize("kept", [True, False, ["x"]], ids=repr)
@pytest.mark.parametrize("given", ["narrow", "x=fp16", {"x": "fp16"}], ids=repr)
def test_both_at_once_are_an_error(given: Any, kept: Any) -> None:
    with pytest.raises(InputError, match="io_types together with keep_io_types"):
        make_policy(fp32_cast="all-fp16", io_types=given, keep_io_types=kept)


@pytest.mark.parametrize("given", ["narrow", "x=fp16", "narrow,x=fp32"])
def test_types_that_change_and_casts_that_stay_are_an_error(given: str) -> None:
    with pytest.raises(InputError, match="--io-types together with --disable-inline-cast"):
        make_policy(fp32_cast="all-fp16", io_types=given, inline_cast=False)


@pytest.mark.parametrize("given", ["keep", "x=fp32"])
def test_types_that_stay_go_with_casts_that_stay(given: str) -> None:
    assert not make_policy(fp32_cast="all-fp16", io_types=given, inline_cast=False).inline_cast


@pytest.mark.parametrize("bits", [1, 2, 10, 11, 22])
@pytest.mark.parametrize("token", ["all-fp32r", "matmult-fp32r", "inputs-fp32r"])
def test_float32r_keeps_as_many_bits_as_asked_for(bits: int, token: str) -> None:
    policy = make_policy(fp32_cast=token, fp32r_bits=bits)
    assert policy.format == float32r(bits)
    assert policy.token == token
    assert policy.is_float32r
    assert policy.dtypes == set()


@pytest.mark.parametrize("bits", [0, -1, 23, 24, 1.5, "11", None], ids=repr)
def test_float32r_keeps_1_to_22_bits(bits: Any) -> None:
    with pytest.raises(InputError) as caught:
        make_policy(fp32_cast="all-fp32r", fp32r_bits=bits)
    assert f"fp32r bits {bits!r}: 1 to 22" in text_of(caught)


@pytest.mark.parametrize("token", ["all-fp16", "none", "matmult", "all-fp8e4"])
def test_bits_of_float32r_want_float32r(token: str) -> None:
    with pytest.raises(InputError, match="fp32r bits 10 without fp32r"):
        make_policy(fp32_cast=token, fp32r_bits=10)


def test_the_types_that_casts_must_take_include_those_of_the_interface() -> None:
    policy = make_policy(fp32_cast="all-fp16", io_types="narrow,x=fp8e4,y=fp32")
    wanted = {FLOAT16.dtype, FLOAT8E4M3FN.dtype, FLOAT32.dtype}
    assert policy.dtypes == wanted
    marked = Policy(scope=Scope.ALL, format=float32r(), io_types=IoTypes(None, {"x": BFLOAT16}))
    assert marked.dtypes == {BFLOAT16.dtype}
