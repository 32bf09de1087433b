"""No block of code in the pages goes untested."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
RUN = {"python", "console", "sh"}
"""What `pytest docs` runs; the scripts that are included are run by `.ci/exports`."""

PAGES = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "migrating").glob("*.md"))


def blocks(page: Path) -> list[tuple[str, str]]:
    found = re.findall(r"^```([^\n{]\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_run_or_compared(page: Path) -> None:
    others = {language for language, _ in blocks(page)} - RUN
    assert others <= ({"yaml"} if page.stem == "exporting" else set())


def test_the_local_hook_is_the_one_that_is_shipped() -> None:
    ((_, text),) = (each for each in blocks(ROOT / "docs" / "exporting.md") if each[0] == "yaml")
    shown: dict[str, Any] = yaml.safe_load(text)["repos"][0]["hooks"][0]
    (shipped,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for key in ("id", "name", "entry", "files"):
        assert shown[key] == shipped[key]


def test_included_scripts_are_there() -> None:
    text = (ROOT / "docs" / "exporting.md").read_text()
    names = re.findall(r"literalinclude\} \.\./models/examples/(\S+)", text)
    assert sorted(names) == sorted(each.name for each in (ROOT / "models/examples").glob("*.py"))
