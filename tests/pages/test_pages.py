"""What can be told about a page without a browser."""

import base64
import gzip
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from onnxcast_cli.pages import BEGINS, model_page, zoo_page

VENDOR = Path(__file__).parents[2] / "cli/pages/vendor"


def held(page: str) -> dict[str, Any]:
    """What a page holds, by name."""
    found = re.findall(r'<script type="text/plain" data-name="([^"]*)">([^<]*)</script>', page)
    return {
        html.unescape(name): json.loads(gzip.decompress(base64.b64decode(text)))
        for name, text in found
    }


def test_a_page_holds_the_report_as_it_is(report: dict[str, Any]) -> None:
    assert held(model_page(report)) == {"report": report}


def test_figures_that_are_not_finite_are_strings(report: dict[str, Any]) -> None:
    passes = {"tolerance": {"max": float("inf"), "rms": float("nan")}}
    found = held(model_page({**report, "request": passes}))["report"]["request"]
    assert found == {"tolerance": {"max": "Infinity", "rms": "NaN"}}


def test_the_page_of_the_zoo_holds_runs_and_reports(report: dict[str, Any]) -> None:
    runs = [{"name": "monday", "rows": []}]
    page = zoo_page(runs, {"a</script>/all": report})
    assert held(page) == {"runs": runs, "report:a</script>/all": report}


def test_the_same_report_gives_the_same_bytes(report: dict[str, Any]) -> None:
    assert model_page(report) == model_page(report)


def test_a_page_asks_for_nothing(report: dict[str, Any]) -> None:
    page = model_page(report)
    assert "default-src 'none'" in page
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!#|data:)', outside) == []
    assert "sourceMappingURL" not in page


def test_names_are_no_markup(report: dict[str, Any]) -> None:
    page = model_page({**report, "source": "folder/<b>&.onnx"})
    assert "<title>&lt;b&gt;&amp;.onnx all-bf16</title>" in page


def test_a_page_can_be_told_from_other_files(report: dict[str, Any]) -> None:
    assert model_page(report).encode().startswith(BEGINS)


@pytest.mark.parametrize("library", sorted(path.name for path in VENDOR.glob("*.js")))
def test_each_library_is_used_and_its_licence_noted(library: str, report: dict[str, Any]) -> None:
    code = (VENDOR / library).read_text(encoding="utf-8")
    assert "</script" not in code
    assert code.splitlines()[0] in model_page(report)
    assert f"`{library}`" in (VENDOR / "LICENSES.md").read_text(encoding="utf-8")


def test_no_two_scripts_define_the_same_name() -> None:
    defined = re.compile(r"^(?:async )?(?:function|const|class) (\w+)", re.MULTILINE)
    scripts = sorted(VENDOR.parent.glob("*.js"))
    names = [name for script in scripts for name in defined.findall(script.read_text("utf-8"))]
    assert len(names) == len(set(names)) > 30
