"""A target from a TOML file: what it says, and one line for each thing that it says wrongly."""

from pathlib import Path

import pytest

from onnxcast.errors import InputError
from onnxcast.formats import BFLOAT16, FLOAT8E4M3FN, FLOAT16, FLOAT32, INT64, float32r
from onnxcast.policy import make_policy
from onnxcast.targets import (
    NativeCast,
    Operand,
    Overflow,
    Pair,
    Rounding,
    Target,
    get_target,
    read_profile,
)

FULL = """
name = "mychip"
aliases = ["mc"]
preferred = "bf16"
opsets = [8, 18]
formats = ["fp32", "bfloat16", "int64"]
one_domain = true
float8e4 = "fp8e4m3"
command = "mycc {model} -o {stem}.bin"
advice = ["mind the gap"]
[refused_ops]
Loop = "no control flow"
[casts]
fp32 = [
  "bf16",
  { to = "fp16", overflow = "saturates", rounding = "rounds to even", evidence = "p. 7" },
]
bf16 = ["float32"]
[[operands]]
format = "fp32"
wanted = "fp32r"
gives = "fp32r"
evidence = "p. 9"
[[operands]]
format = "fp16"
[[pairs]]
first = "bf16"
second = "fp16"
[[pairs]]
first = "bf16"
second = "bf16"
accumulator = "bf16"
evidence = "p. 11"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "chip.toml"
    path.write_text(text)
    return path


def test_everything_that_a_profile_may_say(tmp_path: Path) -> None:
    assert read_profile(written(tmp_path, FULL)) == Target(
        name="mychip",
        aliases=("mc",),
        preferred=BFLOAT16,
        opsets=(8, 18),
        formats=(FLOAT32, BFLOAT16, INT64),
        one_domain=True,
        float8e4=FLOAT8E4M3FN,
        command="mycc {model} -o {stem}.bin",
        advice=("mind the gap",),
        refused_ops=(("Loop", "no control flow"),),
        casts=(
            NativeCast(FLOAT32, BFLOAT16),
            NativeCast(FLOAT32, FLOAT16, Overflow.SATURATES, Rounding.EVEN, "p. 7"),
            NativeCast(BFLOAT16, FLOAT32),
        ),
        operands=(
            Operand(FLOAT32, float32r(), float32r(), "p. 9"),
            Operand(FLOAT16, None, None),
        ),
        pairs=(
            Pair(BFLOAT16, FLOAT16, FLOAT32),
            Pair(BFLOAT16, BFLOAT16, BFLOAT16, "p. 11"),
        ),
    )


def test_a_path_that_ends_in_toml_is_a_profile(tmp_path: Path) -> None:
    path = written(tmp_path, 'name = "a"\npreferred = "fp16"\n')
    assert get_target(path) == get_target(str(path)) == Target(name="a", preferred=FLOAT16)


HEAD = 'name = "a"\npreferred = "fp16"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "name is missing; add it"),
        ('name = "a"', "preferred is missing; add it"),
        ("name =", "no TOML ("),
        ('name = 7\npreferred = "fp16"', "name is 7: a text on one line is wanted"),
        ('name = "a"\npreferred = "fp17"', "preferred: unknown number format 'fp17'; use one of "),
        (HEAD + "color = 1", "color is 1: one of name, aliases, preferred, casts"),
        (HEAD + 'opsets = "all"', "opsets is 'all': the first and the last, such as [8, 18]"),
        ('name = "a\\nb"\npreferred = "fp16"', "name is 'a\\nb': a text on one line is wanted"),
        (HEAD + '"a\\nb" = 1', "'a\\nb' is 1: one of name, aliases"),
        (HEAD + '[casts]\n"fp\\n32" = ["fp16"]', "casts.'fp\\n32' is 'fp\\n32': a text on one"),
        (HEAD + "formats = [1]", "formats[0] is 1: a text on one line is wanted"),
        (HEAD + f"advice = {'[' * 3000}{']' * 3000}", "no TOML ("),
        (HEAD + f"opsets = [{'9' * 5000}, 1]", "no TOML ("),
        (HEAD + f"opsets = [{'9' * 4000}, 1]", "opsets is ["),
        (HEAD + "opsets = [9, 8]", "opsets is [9, 8]: the first and the last"),
        (HEAD + "opsets = [true, 8]", "opsets is [True, 8]: the first and the last"),
        (HEAD + 'aliases = "b"', "aliases is 'b': a list is wanted"),
        (HEAD + "aliases = [1]", "aliases[0] is 1: a text on one line is wanted"),
        (HEAD + "one_domain = 1", "one_domain is 1: true or false is wanted"),
        (HEAD + "refused_ops = []", "refused_ops is []: a table of causes by op is wanted"),
        (HEAD + "casts = []", "casts is []: a table of lists, by source is wanted"),
        (HEAD + "[casts]\nfp32 = 1", "casts.fp32 is 1: a list is wanted"),
        (HEAD + '[casts]\nfp31 = ["fp16"]', "casts.fp31: unknown number format 'fp31'"),
        (HEAD + "[casts]\nfp32 = [1]", "casts.fp32 is 1: a table with to, overflow"),
        (HEAD + "[casts]\nfp32 = [{}]", "casts.fp32.to is missing; add it"),
        (
            HEAD + '[casts]\nfp32 = [{to = "fp16", overflow = "never"}]',
            "casts.fp32.overflow is 'never': one of saturates, wraps, gives infinity, unknown",
        ),
        (HEAD + "[[operands]]\nwanted = 'fp16'", "operands[0].format is missing; add it"),
        (HEAD + "[[pairs]]\nfirst = 'fp16'", "pairs[0].second is missing; add it"),
        (HEAD + "pairs = [1]", "pairs[0] is 1: a table with first, second"),
    ],
)
def test_a_bad_profile_is_one_line_with_file_key_and_what_is_wanted(
    tmp_path: Path, text: str, said: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_profile(path)
    found = str(caught.value)
    assert found.startswith(f"target {path}: {said}")
    assert "\n" not in found


def test_a_profile_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.toml: No such file or directory; name a profile"):
        get_target(tmp_path / "no.toml")
    path = tmp_path / "chip.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"chip\.toml: no TOML \("):
        read_profile(path)


def test_a_profile_may_hold_what_cannot_be_narrowed_to(tmp_path: Path) -> None:
    path = written(tmp_path, 'name = "a"\npreferred = "fp64"\n')
    with pytest.raises(InputError, match="the target prefers float64, to which nothing can be"):
        make_policy(preferred=read_profile(path).preferred)
    assert make_policy(preferred=read_profile(path).preferred, dtype="fp16").format == FLOAT16


def test_a_path_that_no_system_takes() -> None:
    with pytest.raises(InputError, match="embedded null byte; name a profile in TOML"):
        get_target("a\0b.toml")
