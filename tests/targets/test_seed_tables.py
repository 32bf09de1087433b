"""The built-in Ascend tables against those of the seed, cell by cell: a number per pair of formats.

Numbers are conversions: 1 for a native one, more for a chain; what is missing is rejected.
Source: seed tile-cast, "Ascend950 (a5)" and "Ascend910B (a2a3)".
"""

from typing import Any

import pytest

from onnxcast.targets import Chains, format_of, get_target, short_name, tables

A5 = """
bf16: fp16 fp32 fp4 int32 fp8e4m3(2) fp8e5m2(2) hf8(2) int16(2) int8(2) uint16(2) uint8(2)
fp16: fp32 hf8 int16 int32 int8 uint8 bf16(2) fp8e4m3(2) fp8e5m2(2) uint16(2) fp4(3)
fp32: bf16 fp16 fp8e4m3 fp8e5m2 hf8 int16 int32 int64 fp4(2) int8(2) uint16(2) uint8(2)
fp4: bf16 fp8e4m3(3) fp8e5m2(3) hf8(3) int8(3) uint8(3)
fp8e4m3: fp32 bf16(2) fp16(2) fp8e5m2(2) hf8(2) int16(2) fp4(3) int8(3) uint16(3) uint8(3)
fp8e5m2: fp32 bf16(2) fp16(2) fp8e4m3(2) hf8(2) int16(2) fp4(3) int8(3) uint16(3) uint8(3)
hf8: fp32 bf16(2) fp16(2) fp8e4m3(2) fp8e5m2(2) int16(2) fp4(3) int8(3) uint16(3) uint8(3)
int16: fp16 fp32 int32 uint32 uint8 bf16(2) fp8e4m3(2) fp8e5m2(2) hf8(2) int8(2) uint16(2) fp4(3)
int32: fp32 int16 int64 uint16 uint8 bf16(2) fp16(2) fp8e4m3(2) fp8e5m2(2) hf8(2) fp4(3) int8(3)
int64: fp32 int32 bf16(2) fp16(2) fp8e4m3(2) fp8e5m2(2) hf8(2) int16(2) uint16(2) uint8(2) \
fp4(3) int8(3)
int8: fp16 int16 int32 hf8(2) uint16(2) uint8(2) fp8e4m3(3) fp8e5m2(3) fp4(4)
uint16:
uint32: int16 uint16 uint8 int8(3)
uint8: fp16 uint16 hf8(2) int8(2) fp8e4m3(3) fp8e5m2(3) fp4(4)
"""

A2A3 = """
bf16: fp32 int32 fp16(2) int16(2) int4(3) int8(3) uint8(3)
fp16: fp32 int16 int32 int4 int8 uint8 bf16(2)
fp32: bf16 fp16 int16 int32 int64 int4(2) int8(2) uint8(2)
int16: fp16 fp32 bf16(2) int4(2) int8(2) uint8(2)
int32: fp16 fp32 int16 int64 bf16(2) int4(2) int8(2) uint8(2)
int4: fp16 int8(2) uint8(2)
int64: fp32 int32 bf16(2) fp16(2) int16(2) int4(3) int8(3) uint8(3)
int8: fp16 int4(2) uint8(2)
uint8: fp16 int4(2) int8(2)
"""

SEEDS = [("a5", A5), ("a2a3", A2A3)]


def seed(text: str) -> dict[str, dict[str, int]]:
    rows = {}
    for line in text.strip().splitlines():
        source, _, cells = line.partition(":")
        parts = (cell.rstrip(")").partition("(") for cell in cells.split())
        rows[source] = {target: int(hops or 1) for target, _, hops in parts}
    return rows


def hops(found: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {
        source: {
            **dict.fromkeys(native, 1),
            **{to: len(chain["path"]) - 1 for to, chain in found["chains"][source].items()},
        }
        for source, native in found["native"].items()
    }


@pytest.mark.parametrize(("arch", "text"), SEEDS)
def test_every_cell_is_the_seeds(arch: str, text: str) -> None:
    assert hops(tables(get_target(arch))) == seed(text)


@pytest.mark.parametrize(
    ("arch", "native", "chained", "rejected"), [("a5", 42, 84, 56), ("a2a3", 24, 29, 19)]
)
def test_counts(arch: str, native: int, chained: int, rejected: int) -> None:
    found = tables(get_target(arch))
    assert sum(map(len, found["native"].values())) == native
    assert sum(map(len, found["chains"].values())) == chained
    assert sum(map(len, found["rejected"].values())) == rejected
    named = set(found["native"])
    for source in named:
        cells = [*found["native"][source], *found["chains"][source], *found["rejected"][source]]
        assert sorted(cells) == sorted(named - {source}), "each pair is in one table"


@pytest.mark.parametrize(("arch", "more"), [("a5", 24), ("a2a3", 19)])
def test_exact_bridges_add_pairs_without_loss(arch: str, more: int) -> None:
    target = get_target(arch)
    before, after = tables(target), tables(target, exact_bridges=True)
    added = [
        chain
        for source, row in after["chains"].items()
        for to, chain in row.items()
        if to not in before["chains"][source]
    ]
    assert len(added) == more
    assert all(chain["labels"] == ["exact"] for chain in added)
    for source, row in before["chains"].items():
        for to, chain in row.items():
            assert after["chains"][source][to] == chain, "other chains stay"


def path(arch: str, source: str, to: str) -> list[str]:
    chain = Chains(get_target(arch)).find(format_of(source), format_of(to))
    assert chain is not None
    return [short_name(each) for each in chain.path]


@pytest.mark.parametrize(
    ("arch", "way"),
    [
        ("a5", "int32 fp32 fp16"),
        ("a2a3", "int32 fp16"),
        ("a5", "fp16 fp32 bf16"),
        # Full ties, which only the order of the table decides.
        ("a5", "bf16 fp32 hf8"),
        ("a5", "fp4 bf16 fp32 hf8"),
        ("a5", "int16 uint32 uint16"),
        ("a5", "int64 fp32 int16"),
        ("a5", "int8 fp16 uint8"),
        ("a2a3", "int64 fp32 int16"),
        # Ties that the cost decides.
        ("a5", "fp32 fp16 uint8"),
        ("a5", "bf16 fp16 uint8"),
        ("a5", "fp8e4m3 fp32 fp16 uint8"),
        ("a5", "bf16 fp32 int16"),
        ("a5", "int16 fp16 hf8"),
        ("a5", "int32 fp32 fp16 int8"),
        ("a2a3", "bf16 fp32 int16"),
        ("a2a3", "bf16 fp32 fp16 int4"),
        ("a2a3", "int64 fp32 fp16 uint8"),
    ],
)
def test_chains_go_the_way_of_the_seed(arch: str, way: str) -> None:
    formats = way.split()
    assert path(arch, formats[0], formats[-1]) == formats


@pytest.mark.parametrize(
    ("arch", "source", "to", "why"),
    [
        ("a5", "int32", "uint32", "only int32 > int16 > uint32, where int16 is narrower"),
        ("a5", "uint32", "fp32", "only uint32 > int16 > float32, where int16 is narrower"),
        ("a5", "uint16", "fp32", "nothing leads from uint16"),
        ("a2a3", "uint8", "fp32", "only uint8 > float16 > float32, where float16 is narrower"),
    ],
)
def test_what_is_rejected_has_a_reason(arch: str, source: str, to: str, why: str) -> None:
    assert tables(get_target(arch))["rejected"][source][to].startswith(why)


def test_known_labels_of_the_device() -> None:
    found = tables(get_target("a5"))["chains"]
    assert found["int16"]["uint16"]["device_labels"] == ["saturates"]
    assert found["bf16"]["hf8"]["device_labels"] == ["rounds ties away", "saturates"]
    assert "unknown" in found["int32"]["fp16"]["device_labels"]
    assert found["int8"]["uint16"]["device_labels"] == ["saturates"]
