"""The page of one run in Chromium."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest

import onnxcast
from onnxcast_cli.pages import model_page

from .conftest import Browser, Written
from .figures import figures_of, shown_figures

pytestmark = pytest.mark.browser

GRAPH = "document.querySelector('.graph').graph"


def test_it_opens_with_all_that_a_report_tells(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    assert browser.open(written(model_page(report))) < 5
    titles = browser.ask("Array.from(document.querySelectorAll('h2'), each => each.textContent)")
    assert titles == [
        *("Graph", "Error by layer", "Ranges", "Pins", "Casts", "Decisions"),
        *("Changes and findings", "Proof", "The run"),
    ]
    assert browser.ask("document.querySelectorAll('#errors svg circle').length") > 10
    assert browser.ask("document.querySelectorAll('#ranges svg line').length") > 10


def test_every_figure_is_the_reports(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    browser.open(written(model_page(report)))
    figures = browser.ask(shown_figures)
    for node, _ in enumerate(report["graph"]):
        if browser.ask(f"{GRAPH}.homes.has({node})"):
            browser.ask(f"{GRAPH}.reveal({node})")
            figures += browser.ask(shown_figures.replace("[data-figure]", ".detail [data-figure]"))
    for each in figures:
        figures_of(each, report)
    paths = {each["path"] for each in figures}
    layers = {f"/layers/{i}/max_error" for i, _ in enumerate(report["layers"])}
    casts = {f"/graph/{i}/cast/bytes" for i, each in enumerate(report["graph"]) if "cast" in each}
    assert casts
    assert casts <= paths
    assert layers <= paths
    for key in ("tensor_bytes", "casts", "hops", "cast_bytes", "nodes"):
        assert {f"/before/{key}", f"/after/{key}"} <= paths


CHAINS = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x, int32[2] n) => (float[2,2] y, bfloat16[2] m) {
    [product] y = MatMul (x, x)
    [brain] m = Cast <to = 16> (n)
}"""


def test_longer_chains_have_their_labels_and_pins_their_figures(
    browser: Browser, written: Written
) -> None:
    model = onnx.parser.parse_model(CHAINS)
    large = {"x": np.full((2, 2), 1000, np.float32), "n": np.ones(2, np.int32)}
    result = onnxcast.optimize(
        model, fp32_cast="all-fp16", target="ascend950", inputs=[large], drawing=True
    )
    report = json.loads(result.report.to_json())
    browser.open(written(model_page(report)))
    (chain,) = report["casts"]["chains"]
    row = browser.ask("document.querySelector('#casts .scroll:last-child tbody tr').innerText")
    for told in ("int32 → fp32 → bf16", *chain["labels"], *chain["device_labels"]):
        assert told in row
    (pin,) = report["pins"]
    pins = browser.ask("document.querySelector('#pins tbody').innerText")
    assert pins.split("\t") == [pin["node"], pin["figure"]]
    for each in browser.ask(shown_figures):
        figures_of(each, report)


def test_nodes_have_the_colours_of_their_formats(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    browser.open(written(model_page(report)))
    browser.ask(f"{GRAPH}.all(true)")
    assert len(browser.ask(f"{GRAPH}.shown")) > 20
    names = {"float32": "--orange", "bfloat16": "--green"}
    for index, node in enumerate(report["graph"]):
        data = browser.ask(f"{GRAPH}.cy.getElementById('n{index}').data()")
        if data and node["format"] in names:
            assert data["colour"] == names[node["format"]]
            assert ("Cast to" in data["label"]) == ("cast" in node)


def test_a_node_is_found_by_name_and_by_keys(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    browser.open(written(model_page(report)))
    index, node = next((i, each) for i, each in enumerate(report["graph"]) if each["op"] == "Relu")
    browser.press("input[type=search]", node["node"] + "\ue007")
    assert browser.ask("document.getElementById('node').textContent") == node["node"]
    assert "op kept wide by request" in browser.ask("document.querySelector('.detail').innerText")
    browser.press(".graph", "\ue013")  # up: to what it reads
    above = browser.ask(f"{GRAPH}.selected")
    assert above in [f"n{each}" for each in node["reads"]]
    browser.press(".graph", "\ue015")
    assert browser.ask(f"{GRAPH}.selected") != above
    assert index


def test_a_row_of_a_table_leads_to_its_node(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    browser.open(written(model_page(report)))
    name = browser.ask("document.querySelector('#errors td button').textContent")
    browser.click("#errors td button")
    assert browser.ask("document.getElementById('node').textContent") == name


def test_a_value_in_the_chart_leads_to_its_node(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    browser.open(written(model_page(report)))
    browser.click("#errors svg circle")
    first = next(layer for layer in report["layers"] if layer["max_error"])
    assert browser.ask("document.getElementById('node').textContent") == first["node"]


def test_dark_and_light(browser: Browser, written: Written, report: dict[str, Any]) -> None:
    browser.open(written(model_page(report)))
    back = "getComputedStyle(document.body).backgroundColor"
    try:
        browser.prefer("dark")
        browser.wait(f"{back} === 'rgb(20, 23, 27)'")
        browser.ask(
            "(theme => { theme.value = 'light'; theme.dispatchEvent(new Event('change')); })"
            "(document.getElementById('theme'))"
        )
        assert browser.ask(back) == "rgb(255, 255, 255)"
    finally:
        browser.prefer("")


@pytest.mark.parametrize("width", [1400, 420])
def test_nothing_is_wider_than_the_window(
    browser: Browser, written: Written, report: dict[str, Any], width: int
) -> None:
    browser.resize(width, 900)
    browser.open(written(model_page(report)))
    page, room = browser.ask("[document.body.scrollWidth, document.documentElement.clientWidth]")
    assert page <= room
    charts = browser.ask(
        "[...document.querySelectorAll('.chart')].map(each => [each.scrollWidth, each.clientWidth])"
    )
    assert len(charts) == 2
    assert width < 500 or all(chart <= room for chart, room in charts)  # small ones scroll


def test_a_layer_is_that_of_its_op_and_not_of_the_cast_behind_it(
    browser: Browser, written: Written, report: dict[str, Any]
) -> None:
    browser.open(written(model_page(report)))
    graph = report["graph"]
    rows = browser.ask("join(arguments[0]).rows", report)
    assert rows
    assert {row["op"] for row in rows if graph[row["index"]]["op"] != row["op"]} == set()


def large(report: dict[str, Any], scopes: bool) -> dict[str, Any]:
    """A report of 3,000 nodes in a row, with some skips and Casts."""
    graph: list[dict[str, Any]] = [
        {"node": "x", "op": "input", "format": "float32", "gives": ["x"]}
    ]
    layers = []
    for i in range(1, 3001):
        name = f"/block.{i // 60}/part.{i // 12 % 5}/op_{i}" if scopes else f"op_{i}"
        reads = [i - 1] + [i - skip for skip in (6, 40) if i % (skip + 1) == 0 and i > skip]
        node = {"node": name, "op": "Add", "format": "float16", "reads": reads, "gives": [f"v{i}"]}
        cast = {"op": "Cast", "format": "float32", "cast": {"hops": 1, "bytes": 4 * i}}
        graph.append({**node, **(cast if i % 11 == 0 else {})})
        errors = {"max_error": 1e-4, "rms_error": 1e-4, "low": -1.0, "high": 1.0, "smallest": 1e-3}
        layers.append({"value": f"v{i}", "node": name, "op": "Add", "non_finite": 0, **errors})
    return {**report, "graph": graph, "layers": layers}


@pytest.mark.parametrize("scopes", [True, False])
def test_three_thousand_nodes_can_be_looked_at(
    browser: Browser, written: Written, report: dict[str, Any], scopes: bool
) -> None:
    assert browser.open(written(model_page(large(report, scopes)))) < 5
    assert 20 <= browser.ask(f"{GRAPH}.shown.length") <= 200
    closed = browser.ask(f"{GRAPH}.cy.nodes('[kind=\"closed\"]')[0].id()")
    browser.ask(f"{GRAPH}.toggle(arguments[0])", closed)
    assert browser.ask(f"{GRAPH}.cy.getElementById(arguments[0]).children().length", closed) > 1
    browser.ask(f"{GRAPH}.reveal(1500)")
    assert browser.ask("document.getElementById('node').textContent").endswith("op_1500")
    browser.ask(f"{GRAPH}.all(false)")
    assert 20 <= browser.ask(f"{GRAPH}.shown.length") <= 80


@pytest.fixture(autouse=True)
def usual_size(browser: Browser) -> Iterator[None]:
    yield
    browser.resize(1400, 1000)
