import json
from pathlib import Path

import pytest

from onnxcast import InputError
from onnxcast_models.rows import Row
from onnxcast_models.store import Store, read_rows

ROWS = [
    Row(name="a", token="all", outcome="written", casts=2, worst_error=1e-3, labels=(3, 2, 4)),
    Row(name="b", token="all", target="ascend950", outcome="differs", worst_error=float("inf")),
    Row(name="c", token="none", outcome="crashed", cause="killed by SIGSEGV", seconds=1.5),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    with Store(path) as store:
        for row in ROWS:
            store.add(row)
    return path


def test_rows_come_back_as_they_were(path: Path) -> None:
    assert read_rows(path) == ROWS
    with Store(path) as store:
        assert store.rows == ROWS
    assert read_rows(path) == ROWS


def test_a_row_is_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Store(path) as store:
        store.add(ROWS[0])
        assert read_rows(path) == ROWS[:1]


def test_a_line_that_was_cut_off_is_dropped_and_written_over(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])
    assert read_rows(path) == ROWS[:2]
    with Store(path) as store:
        assert store.rows == ROWS[:2]
        store.add(ROWS[2])
    assert read_rows(path) == ROWS


@pytest.mark.parametrize("text", ["", '{"format": 1, "vers'])
def test_a_file_without_a_whole_line_is_begun_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text)
    with Store(path) as store:
        store.add(ROWS[0])
    assert read_rows(path) == ROWS[:1]


def test_rows_of_other_versions_are_not_gone_on_with(path: Path) -> None:
    head, *rest = path.read_text().splitlines(keepends=True)
    plain = json.loads(head)
    plain["versions"]["onnx"] = "1.0"
    path.write_text(json.dumps(plain) + "\n" + "".join(rest))
    with pytest.raises(InputError, match=r"its rows come from onnx 1\.0 \(now .*another file"):
        Store(path)
    assert read_rows(path) == ROWS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "not a file of results"),
        ("not json\n", "not a file of results"),
        ("[]\n", "not a file of results"),
        ('{"format": 2}\n', "not a file of results"),
    ],
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "notes"
    path.write_text(text)
    for use in (Store, read_rows):
        with pytest.raises(InputError, match=why):
            use(path)
    assert path.read_text() == text


def test_a_bad_row_is_named_by_its_line(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[2] = '{"name": 1, "colour": "red"}\n'
    path.write_text("".join(lines))
    with pytest.raises(InputError, match="line 3: not a row"):
        read_rows(path)


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="results cannot be kept"):
        Store(tmp_path / "no" / "folder.jsonl")
