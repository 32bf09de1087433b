import json
from pathlib import Path

import pytest

from onnxcast import InputError
from onnxcast_models.expectations import Expectations
from onnxcast_models.judging import judge
from onnxcast_models.rows import Row

ROW = Row(
    name="a",
    token="all-fp16",
    digest="d",
    outcome="written",
    casts=2,
    cast_bytes=10,
    narrow_bytes=4,
    pins=0,
    worst_error=1.23456e-4,
    seconds=3.0,
)
REFUSED = Row(
    name="a", token="all", target="ascend950", digest="d", outcome="refused", cause="no such Cast"
)


def test_what_is_written_is_expected(tmp_path: Path) -> None:
    folder = tmp_path / "expected"
    assert Expectations(folder).update([ROW, REFUSED]) == [folder / "a.json"]
    expected = Expectations(folder)
    for row in (ROW, REFUSED):
        assert judge(expected.of(row.key), row) == ("same", "")
    assert expected.of(("a", "none", "generic")) is None
    assert expected.of(("b", "all", "generic")) is None


def test_a_mode_is_a_line_and_seconds_are_not_kept(tmp_path: Path) -> None:
    Expectations(tmp_path).update([ROW, REFUSED])
    lines = (tmp_path / "a.json").read_text().splitlines()
    assert [line.split('"')[1] for line in lines[1:-1]] == ["all-fp16", "all@ascend950"]
    plain = json.loads((tmp_path / "a.json").read_text())["all-fp16"]
    assert plain["worst_error"] == 1.23e-4
    assert "seconds" not in plain


def test_other_modes_and_models_are_left_alone(tmp_path: Path) -> None:
    Expectations(tmp_path).update([ROW, REFUSED])
    before = (tmp_path / "a.json").read_text()
    assert Expectations(tmp_path).update([ROW]) == []
    assert (tmp_path / "a.json").read_text() == before


@pytest.mark.parametrize("outcome", ["crashed", "failed", "missing", "invalid"])
def test_nobody_expects_a_fault(tmp_path: Path, outcome: str) -> None:
    row = Row.from_dict({**REFUSED.to_dict(), "outcome": outcome})
    assert Expectations(tmp_path).update([row]) == []


@pytest.mark.parametrize("text", ["{", "[1]", '{"all-fp16": {"colour": 1}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=r"a\.json: no expectations can be read"):
        Expectations(tmp_path).of(ROW.key)
