"""Every cell of the operand tables, and pairs made legal."""

import dataclasses

import pytest

from onnxcast.errors import RefusedError
from onnxcast.targets import Operand, Pair, Target, format_of, get_target, short_name, tables

REFUSED = "-"

# Per target: what is wanted, then what an operand of each format becomes. Sources: Ascend's Mmad
# tables; for Trainium the proposal after nc_matmul and the tokens of --fp32-cast.
CELLS = {
    "ascend910b": """
        wanted fp32 fp16 bf16 fp8e4m3 fp8e5m2 int8
        fp32   fp32 fp16 bf16 fp16    fp16    int8
        fp16   fp16 fp16 bf16 fp16    fp16    int8
        bf16   bf16 fp16 bf16 fp16    fp16    int8
        fp32r  -    fp16 bf16 fp16    fp16    int8
        fp8e4m3 -   fp16 bf16 fp16    fp16    int8
    """,
    "ascend950": """
        wanted  fp32    fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
        fp32    fp32    fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
        fp16    fp16    fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
        bf16    bf16    fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
        fp8e4m3 fp8e4m3 fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
        fp8e5m2 fp8e5m2 fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
        fp32r   fp32r   fp16 bf16 fp8e4m3 fp8e5m2 hf8 fp32r int8
    """,
    "atc-ascend310p": """
        wanted fp32 fp16 bf16 fp8e4m3 fp8e5m2 int8
        fp32   fp16 fp16 -    -       -       int8
        fp16   fp16 fp16 -    -       -       int8
        bf16   fp16 fp16 -    -       -       int8
    """,
    "atc-ascend910b": """
        wanted fp32 fp16 bf16 fp8e4m3 fp8e5m2 int8
        fp32   fp32 fp16 bf16 -       -       int8
        fp16   fp16 fp16 bf16 -       -       int8
        bf16   bf16 fp16 bf16 -       -       int8
        fp8e4m3 -   fp16 bf16 -       -       int8
    """,
    "trn1": """
        wanted fp32  fp64  fp32r bf16  fp16  fp8e4 fp8e5m2 fp8e4m3 int8 uint8 int32
        fp32   fp32  fp32  fp32r bf16  fp16  fp8e4 fp8e5m2 bf16    fp32 fp32  fp32
        bf16   bf16  bf16  fp32r bf16  fp16  fp8e4 fp8e5m2 bf16    fp32 fp32  fp32
        fp16   fp16  fp16  fp32r bf16  fp16  fp8e4 fp8e5m2 bf16    fp32 fp32  fp32
        fp32r  fp32r fp32r fp32r bf16  fp16  fp8e4 fp8e5m2 bf16    fp32 fp32  fp32
        fp8e4  fp8e4 fp8e4 fp32r fp8e4 fp8e4 fp8e4 fp8e5m2 bf16    fp32 fp32  fp32
        fp8e4m3 fp8e4 fp8e4 fp32r fp8e4 fp8e4 fp8e4 fp8e5m2 bf16   fp32 fp32  fp32
    """,
}
CELLS["trn2"] = CELLS["trn1"]
CELLS["trn3"] = CELLS["trn1"].replace("fp8e5m2 bf16 ", "fp8e5m2 fp8e4m3 ")


def cells() -> list[tuple[str, str, str, str]]:
    found = []
    for target, text in CELLS.items():
        header, *rows = (line.split() for line in text.strip().splitlines())
        for wanted, *answers in rows:
            row = zip(header[1:], answers, strict=True)
            found += [(target, given, wanted, answer) for given, answer in row]
    return found


@pytest.mark.parametrize(("target", "given", "wanted", "answer"), cells())
def test_every_cell(target: str, given: str, wanted: str, answer: str) -> None:
    asked = format_of(given), format_of(wanted)
    if answer == REFUSED:
        with pytest.raises(RefusedError, match=f"takes no {asked[0]} operand where {asked[1]} is"):
            get_target(target).matmul_operand_type(*asked)
        return
    assert short_name(get_target(target).matmul_operand_type(*asked)) == answer


@pytest.mark.parametrize("target", CELLS)
def test_no_row_of_a_table_is_without_a_cell_here_or_without_evidence(target: str) -> None:
    shown = {given for name, given, _, _ in cells() if name == target}
    rows = get_target(target).operands
    assert {short_name(row.format) for row in rows} - {"int16", "int64"} <= shown
    assert all(row.evidence for row in rows)
    assert all(pair.evidence for pair in get_target(target).pairs)
    assert all(cast.evidence for cast in get_target(target).casts or ())


@pytest.mark.parametrize("target", CELLS)
def test_what_an_operand_becomes_is_multiplied_with_itself(target: str) -> None:
    known = get_target(target)
    for row in tables(known)["matmul"].values():
        for answer in row.values():
            format_ = format_of(answer)
            assert known.matmul_operand_pair(format_, format_) == (format_, format_)


@pytest.mark.parametrize(
    ("target", "given", "pair"),
    [
        ("ascend910b", "fp16 bf16", "fp32 fp32"),
        ("ascend910b", "fp32 fp16", "fp32 fp32"),
        ("ascend910b", "bf16 bf16", "bf16 bf16"),
        ("ascend950", "fp16 bf16", "fp32 fp32"),
        ("ascend950", "bf16 fp16", "fp32 fp32"),
        ("ascend950", "fp8e4m3 fp8e5m2", "fp8e4m3 fp8e5m2"),
        ("ascend950", "fp8e5m2 fp8e4m3", "fp8e5m2 fp8e4m3"),
        ("ascend950", "fp8e4m3 fp16", "fp16 fp16"),
        ("ascend950", "fp32r bf16", "fp32r fp32r"),
        ("ascend950", "fp32r10 fp32r10", "fp32r10 fp32r10"),
        ("atc-ascend310p", "fp16 fp16", "fp16 fp16"),
        ("atc-ascend910b", "fp32 bf16", "fp32 fp32"),
        ("trn1", "bf16 fp32", "fp32 fp32"),
        ("trn1", "fp32 fp16", "fp32 fp32"),
        ("trn1", "fp32r bf16", "fp32r fp32r"),
        ("trn1", "fp32r fp32", "fp32r fp32"),
        ("trn1", "bf16 fp16", "bf16 fp16"),
        ("trn2", "fp8e4 bf16", "fp8e4 bf16"),
        ("trn3", "fp8e4m3 bf16", "fp8e4m3 bf16"),
        ("trn3", "fp8e4 fp8e4m3", "fp8e4m3 fp8e4m3"),
    ],
)
def test_pairs(target: str, given: str, pair: str) -> None:
    first, second = (format_of(name.replace("fp32r10", "float32r10")) for name in given.split())
    wanted = tuple(format_of(name.replace("fp32r10", "float32r10")) for name in pair.split())
    assert get_target(target).matmul_operand_pair(first, second) == wanted


def test_a_pair_that_nothing_wider_replaces_is_refused() -> None:
    with pytest.raises(RefusedError, match="takes no float32 with float16, nor wider types"):
        get_target("atc-ascend310p").matmul_operand_pair(format_of("fp32"), format_of("fp16"))


def test_tables_may_be_replaced() -> None:
    fp32, fp16, bf16 = map(format_of, ("fp32", "fp16", "bf16"))
    mine = dataclasses.replace(
        get_target("trn1"),
        name="mine",
        operands=(Operand(fp32, None, bf16),),
        pairs=(Pair(bf16, fp16, fp32),),
    )
    assert mine.matmul_operand_type(fp32, fp16) == bf16
    assert mine.matmul_operand_pair(bf16, fp16) == (bf16, fp16)
    with pytest.raises(RefusedError):
        mine.matmul_operand_pair(fp16, bf16)
    assert mine.digest != get_target("trn1").digest
    assert Target(name="a", preferred=fp16).digest == Target(name="a", preferred=fp16).digest
