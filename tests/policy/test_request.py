"""Tokens, scopes and dtypes resolve to one policy, and an unknown one lists the known."""

import pytest

from onnxcast.errors import InputError
from onnxcast.formats import BFLOAT16, FLOAT8E4M3FN, FLOAT16, Format, float32r
from onnxcast.policy import DTYPES, TOKENS, Policy, Scope, make_policy

RESOLVED = {
    "none": (Scope.NONE, None, "none"),
    "all": (Scope.ALL, BFLOAT16, "all-bf16"),
    "all-bf16": (Scope.ALL, BFLOAT16, "all-bf16"),
    "all-fp16": (Scope.ALL, FLOAT16, "all-fp16"),
    "experimental-all-fp16": (Scope.ALL, FLOAT16, "all-fp16"),
    "matmult": (Scope.MATMULT, BFLOAT16, "matmult-bf16"),
    "matmult-bf16": (Scope.MATMULT, BFLOAT16, "matmult-bf16"),
    "matmult-fp16": (Scope.MATMULT, FLOAT16, "matmult-fp16"),
    "all-mixed": (Scope.ALL, FLOAT16, "all-mixed"),
    "matmult-mixed": (Scope.MATMULT, FLOAT16, "matmult-mixed"),
    "inputs": (Scope.INPUTS, BFLOAT16, "inputs-bf16"),
    "inputs-bf16": (Scope.INPUTS, BFLOAT16, "inputs-bf16"),
    "inputs-fp16": (Scope.INPUTS, FLOAT16, "inputs-fp16"),
    **{
        f"{scope.value}-{name}": (scope, format_, f"{scope.value}-{name}")
        for scope in (Scope.ALL, Scope.MATMULT, Scope.INPUTS)
        for name, format_ in (("fp32r", float32r()), ("fp8e4", FLOAT8E4M3FN))
    },
}


def test_every_token_is_listed_here() -> None:
    assert set(RESOLVED) == set(TOKENS)


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_resolves_to_scope_format_and_canonical_token(token: str) -> None:
    scope, format_, canonical = RESOLVED[token]
    policy = make_policy(fp32_cast=token)
    assert (policy.scope, policy.format, policy.token) == (scope, format_, canonical)
    assert make_policy(fp32_cast=policy.token) == policy


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scope", [Scope.ALL, Scope.MATMULT])
def test_scope_and_dtype_are_the_friendly_spelling(scope: Scope, dtype: str) -> None:
    policy = make_policy(scope=scope.value, dtype=dtype)
    assert (policy.scope, policy.format) == (scope, DTYPES[dtype])
    assert make_policy(fp32_cast=policy.token) == policy


@pytest.mark.parametrize(
    ("preferred", "wanted"), [(None, FLOAT16), (FLOAT16, FLOAT16), (BFLOAT16, BFLOAT16)]
)
def test_a_scope_without_a_dtype_takes_the_targets_format(
    preferred: Format | None, wanted: Format
) -> None:
    assert make_policy(preferred=preferred) == make_policy(scope="all", preferred=preferred)
    assert make_policy(scope="matmult", preferred=preferred).format == wanted
    assert make_policy(preferred=preferred).format == wanted


def test_only_the_bare_token_means_bfloat16_whatever_the_target_prefers() -> None:
    assert make_policy(fp32_cast="all", preferred=FLOAT16).format == BFLOAT16
    assert make_policy(scope="all").format == FLOAT16


@pytest.mark.parametrize("scope", ["all", "matmult"])
def test_mixed_means_float16_and_bfloat16(scope: str) -> None:
    policy = make_policy(scope=scope, dtype="mixed")
    assert policy == make_policy(fp32_cast=f"{scope}-mixed")
    assert (policy.format, policy.fallback) == (FLOAT16, BFLOAT16)
    assert policy.formats == [FLOAT16, BFLOAT16]
    assert policy.dtypes == {FLOAT16.dtype, BFLOAT16.dtype}
    assert policy.narrowest == BFLOAT16
    assert policy.falling_back() == make_policy(fp32_cast=f"{scope}-bf16")
    assert make_policy(fp32_cast=f"{scope}-fp16").falling_back() is None


def test_graph_inputs_alone_cannot_be_mixed() -> None:
    with pytest.raises(InputError, match="scope inputs with dtype mixed: scope all or matmult"):
        make_policy(scope="inputs", dtype="mixed")


def test_no_graph_input_has_two_formats() -> None:
    with pytest.raises(InputError, match="mixed"):
        make_policy(io_types="x=mixed")


def test_a_dtype_alone_means_scope_all() -> None:
    policy = make_policy(dtype="bf16")
    assert (policy.scope, policy.format) == (Scope.ALL, BFLOAT16)


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ({"fp32_cast": "al"}, [*TOKENS, "did you mean all?"]),
        ({"fp32_cast": "matmul-fp16"}, [*TOKENS, "did you mean matmult-fp16?"]),
        ({"fp32_cast": ""}, list(TOKENS)),
        ({"fp32_cast": "ALL"}, list(TOKENS)),
        ({"scope": "matmul"}, ["all", "matmult", "none"]),
        ({"scope": "xyz"}, ["all", "matmult", "none"]),
        ({"dtype": "half"}, [*DTYPES, "mixed"]),
        ({"dtype": "fp61"}, [*DTYPES, "did you mean fp16?"]),
    ],
)
def test_an_unknown_word_is_an_error_that_lists_the_known(
    arguments: dict[str, str], known: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        make_policy(**arguments)  # type: ignore[arg-type]  # the words are the point, not the types
    text = str(caught.value)
    assert "\n" not in text
    assert repr(next(iter(arguments.values()))) in text
    for word in known:
        assert word in text


@pytest.mark.parametrize(
    "arguments", [{"scope": "all"}, {"dtype": "fp16"}, {"scope": "none", "dtype": "bf16"}]
)
def test_a_token_excludes_scope_and_dtype(arguments: dict[str, str]) -> None:
    with pytest.raises(InputError, match="give the token or the other two"):
        make_policy(fp32_cast="all", **arguments)  # type: ignore[arg-type]  # as above


def test_scope_none_takes_no_dtype() -> None:
    assert make_policy(scope="none").format is None
    with pytest.raises(InputError, match="nothing is narrowed"):
        make_policy(scope="none", dtype="fp16")


@pytest.mark.parametrize(("scope", "format_"), [(Scope.NONE, FLOAT16), (Scope.ALL, None)])
def test_a_policy_that_contradicts_itself_cannot_be_made(
    scope: Scope, format_: Format | None
) -> None:
    with pytest.raises(InputError, match="a format is wanted exactly when"):
        Policy(scope=scope, format=format_)
