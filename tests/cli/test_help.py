from collections.abc import Iterator

import click
import pytest

from onnxcast_cli import command, main


def paths(group: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    for name, each in getattr(group, "commands", {}).items():
        yield from paths(each, *names, name)


@pytest.mark.parametrize("path", list(paths(command)), ids=" ".join)
def test_help_has_an_example_and_fits_80_columns(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*path, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert any(line.strip().startswith(" ".join(("onnxcast", *path))) for line in lines)
