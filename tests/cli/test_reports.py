"""Reports to look at, from the command line."""

import json
from pathlib import Path

import pytest

from onnxcast_cli.pages import BEGINS
from tests.cli.conftest import Command
from tests.pages.test_pages import held


def test_a_page_and_json_hold_the_same(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path
) -> None:
    page, record = tmp_path / "r.html", tmp_path / "r.json"
    reports = ["--report", page, "--report", record]
    ran = command("optimize", perceptron, "--inputs", samples, *reports)
    assert ran.code == 0, ran.err
    report = json.loads(record.read_text())
    assert held(page.read_text()) == {"report": report}
    assert [layer["node"] for layer in report["layers"]] == ["product", "sum", "limit"]
    assert len(report["graph"]) == report["after"]["nodes"] + 2


def test_a_page_replaces_a_report_and_nothing_else(
    command: Command, perceptron: Path, tmp_path: Path
) -> None:
    page = tmp_path / "r.html"
    run = ["optimize", perceptron, "--no-verify", "--report", page]
    assert command(*run).code == 0
    assert page.read_bytes().startswith(BEGINS)
    assert command(*run).code == 0
    page.write_text("<!doctype html>\n<html>my page")
    refused = command(*run)
    assert refused.code == 2
    assert "there, and no report of onnxcast" in refused.err
    assert page.read_text().endswith("my page")


def test_two_reports_are_two_files(command: Command, perceptron: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    ran = command("optimize", perceptron, "--report", page, "--report", page)
    assert ran.code == 2
    assert "two reports go to the same file" in ran.err
    assert not page.exists()


@pytest.fixture
def run(command: Command, perceptron: Path, tmp_path: Path) -> Path:
    """A folder with a run of the zoo over one model, and its reports."""
    models = tmp_path / "models"
    models.mkdir()
    perceptron.rename(models / "perceptron.onnx")
    store = ["--results", tmp_path / "run.jsonl", "--reports", tmp_path / "reports"]
    ran = command("zoo", "run", "--models", models, "--token", "all-fp16", *store)
    assert ran.code == 0, ran.err
    return tmp_path


def test_the_page_of_the_zoo(command: Command, run: Path) -> None:
    page, store = run / "zoo.html", run / "run.jsonl"
    ran = command("zoo", "report", store, store, "--reports", run / "reports", "-o", page)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(f"wrote {page} (1.")
    found = held(page.read_text())
    assert [each["name"] for each in found["runs"]] == ["run", "run"]
    (row,) = found["runs"][1]["rows"]
    assert (row["name"], row["mode"], row["verdict"]) == ("perceptron", "all-fp16", "same")
    assert found["runs"][0]["rows"][0]["verdict"] == "new"
    report = json.loads((run / "reports/perceptron.all-fp16.json").read_text())
    kept = found["report:perceptron/all-fp16"]
    assert {**kept, "findings": report["findings"]} == report
    codes = [each["code"] for each in report["findings"]]
    assert [each["code"] for each in kept["findings"]] == codes
    assert kept["findings"][0] == report["findings"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run.jsonl", "--reports", "nowhere"], "nowhere: no such folder"),
        (["models/perceptron.onnx"], "perceptron.onnx: not a file of results"),
        (["none.jsonl"], "none.jsonl: cannot be read"),
        (["run.jsonl", "-o", "models/perceptron.onnx"], "there, and no report of onnxcast"),
        (["run.jsonl", "-o", "no/zoo.html"], "a file in an existing folder is wanted"),
        ([], "Missing argument 'STORE...'"),
    ],
)
def test_bad_usage_is_one_line(
    command: Command, run: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(run)
    ran = command("zoo", "report", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_page_that_cannot_be_written_is_named(command: Command, run: Path) -> None:
    page = run / f"{'z' * 250}.html"  # there is no room for the end of a temporary name
    ran = command("zoo", "report", run / "run.jsonl", "-o", page)
    assert ran.code == 1
    assert f"report {page}: cannot be written" in ran.err
    assert ran.err.count("\n") == 1


def test_a_broken_report_is_told(command: Command, run: Path) -> None:
    broken = run / "reports/perceptron.all-fp16.json"
    broken.write_text(broken.read_text()[:100])
    ran = command("zoo", "report", run / "run.jsonl", "--reports", run / "reports")
    assert ran.code == 2
    assert "no report of zoo run --reports; remove it, or run that job again" in ran.err
