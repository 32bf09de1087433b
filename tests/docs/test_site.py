"""The site builds without a warning, and has all that the code has."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
import pytest

import onnxcast
from onnxcast.diagnostics import Code
from onnxcast.passes.shrink_initializers import ShrinkGuard
from onnxcast.planning import Reason
from onnxcast.policy import TOKENS
from onnxcast.targets import all_targets
from onnxcast_cli import command

pytestmark = pytest.mark.docs
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(folder)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def text(page: Path) -> str:
    """What a reader sees of a page."""
    return unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name, each in getattr(group, "commands", {}).items():
        yield from commands(each, f"{path} {name}")


def test_every_public_name_is_there(site: Path) -> None:
    page = (site / "python.html").read_text()
    missing = [name for name in onnxcast.__all__ if f'id="onnxcast.{name}"' not in page]
    assert not missing


def test_every_command_and_option_is_there(site: Path) -> None:
    page = text(site / "cli.html")
    for path, each in commands(command, "onnxcast"):
        assert path in page
        for parameter in each.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert max(parameter.opts, key=len) in page, (path, parameter.opts)


def test_every_code_is_there(site: Path) -> None:
    page = text(site / "generated" / "codes.html")
    codes = [each.name for each in (*Reason, *ShrinkGuard)] + [each.value for each in Code]
    assert not [code for code in codes if code not in page]


def test_every_token_is_there(site: Path) -> None:
    page = text(site / "generated" / "tokens.html")
    assert not [token for token in TOKENS if token not in page]


def test_every_target_has_a_page(site: Path) -> None:
    for target in all_targets():
        page = text(site / "generated" / "targets" / f"{target.name}.html")
        assert target.digest in page


def test_every_pass_has_a_page_with_both_sides(site: Path) -> None:
    for name in onnxcast.passes.__all__:
        page = text(site / "generated" / "passes" / f"{name}.html")
        assert "Before:" in page
        assert "After" in page
