"""The page of a run of the zoo in Chromium."""

import json
from pathlib import Path

import pytest

from .conftest import Browser
from .figures import figures_of, shown_figures

pytestmark = pytest.mark.browser

CELLS = "Array.from(document.querySelectorAll('.cell'), each => each.getAttribute('aria-label'))"


def rows(zoo: Path, run: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (zoo / f"{run}.jsonl").read_text().splitlines()[1:]]


def test_from_the_matrix_to_a_model_to_a_node(browser: Browser, zoo: Path) -> None:
    assert browser.open(zoo / "zoo.html") < 3
    assert len(browser.ask(CELLS)) == 4
    browser.click("a.cell[href='#digits_resnet_ts%2Fall-fp16']")
    browser.wait("document.querySelector('h1')?.textContent === 'digits_resnet_ts.onnx'")
    browser.wait("document.body.dataset.ready === 'yes'")
    assert browser.ask("document.getElementById('asked').textContent").startswith("all-fp16 for")
    browser.click("#casts td button")
    report = json.loads((zoo / "reports/digits_resnet_ts.all-fp16.json").read_text())
    chosen = browser.ask("document.getElementById('node').textContent")
    assert any(node["node"] == chosen and "cast" in node for node in report["graph"])
    for each in browser.ask(shown_figures.replace("[data-figure]", "#graph [data-figure]")):
        figures_of(each, report)
    browser.click("#path a")
    browser.wait("document.getElementById('matrix') !== null")


def test_every_figure_is_that_of_its_row(browser: Browser, zoo: Path) -> None:
    browser.open(zoo / "zoo.html")
    figures = browser.ask(shown_figures)
    assert len(figures) > 20
    for each in figures:
        figures_of(each, {"rows": rows(zoo, "tuesday")})


def test_trends_go_over_all_runs(browser: Browser, zoo: Path) -> None:
    browser.open(zoo / "zoo.html")
    ticks = browser.ask(
        "document.querySelector('#trends svg [aria-label=\"x-axis tick label\"]').textContent"
    )
    assert ticks == "mondaytuesday"
    select = "document.querySelector('#trends select')"
    for figure in ("Casts", "worst error", "seconds"):
        browser.ask(f"{select}.value = {figure!r}")
        browser.ask(f"{select}.dispatchEvent(new Event('change'))")
        label = browser.ask("document.querySelector('#trends .chart').getAttribute('aria-label')")
        assert label == f"Trend of {figure}"


def test_a_model_without_a_report_has_its_row(browser: Browser, zoo: Path, tmp_path: Path) -> None:
    from onnxcast_cli import main

    page = tmp_path / "bare.html"
    assert main(["zoo", "report", str(zoo / "tuesday.jsonl"), "-o", str(page)]) == 0
    browser.open(page)
    browser.click("a.cell")
    browser.wait("document.getElementById('row') !== null")
    assert "no report" in browser.ask("document.querySelector('main').innerText")
