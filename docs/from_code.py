"""Pages that are written from the code whenever the site is built, so that they cannot differ.

One per pass, from the docstring of its module; one per target, from its tables; and one of codes,
from the enums. They go to ``docs/generated``, which is not kept.
"""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx

import onnxcast.passes
from onnxcast.codes import known_codes
from onnxcast.passes.shrink_initializers import ShrinkGuard
from onnxcast.policy import MEANINGS, TOKENS, Meaning
from onnxcast.targets import Target, all_targets, short_name, tables

FOLDER = "generated"


def setup(app: Sphinx) -> dict[str, bool]:
    """Have the pages written before any is read."""
    app.connect("builder-inited", _write)
    app.connect("sphinx-click-process-description", _escape)
    return {"parallel_read_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / FOLDER
    pages = {
        **{f"passes/{name}.rst": _pass_page(name) for name in onnxcast.passes.__all__},
        **{f"targets/{each.name}.md": _target_page(each) for each in all_targets()},
        "codes.md": _codes_page(),
        "meanings.md": _meanings_page(),
        "tokens.md": _tokens_page(),
    }
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def _escape(_app: Sphinx, _context: click.Context, lines: list[str]) -> None:
    """Let patterns in the help of a command be no markup."""
    lines[:] = [line.replace("*", "\\*") for line in lines]


def _pass_page(name: str) -> str:
    module = inspect.getmodule(getattr(onnxcast.passes, name))
    assert module is not None
    return "\n".join(
        (
            f"{name}\n{'=' * len(name)}\n",
            f".. automodule:: {module.__name__}\n",
            f".. autoclass:: onnxcast.passes.{name}\n   :members:\n   :no-index:\n",
        )
    )


def _target_page(target: Target) -> str:
    return "\n\n".join(_target_parts(target)) + "\n"


def _target_parts(target: Target) -> Iterator[str]:
    yield f"# {target.name}"
    opsets = "any" if target.opsets is None else "{} to {}".format(*target.opsets)
    takes = target.formats
    yield _table(
        ("what", "is"),
        (
            ("other names", ", ".join(target.aliases) or "none"),
            ("preferred format", short_name(target.preferred)),
            ("opsets", opsets),
            ("element types", "any" if takes is None else ", ".join(map(short_name, takes))),
            ("operators", "those of ONNX alone" if target.one_domain else "any"),
            ("8-bit float with 4 exponent bits", short_name(target.float8e4)),
            ("next command", f"`{target.command}`" if target.command else "none"),
            ("digest", f"`{target.digest}`"),
        ),
    )
    if target.advice:
        yield "## What its user has to do\n\n" + "\n".join(f"- {each}" for each in target.advice)
    if target.refused_ops:
        yield "## Operators that it does not take"
        yield _table(("operator", "cause"), target.refused_ops)
    yield from _conversions(target)
    yield from _operands(target)


def _conversions(target: Target) -> Iterator[str]:
    yield "## Conversions"
    if target.casts is None:
        yield "No table is known: it is taken to have every conversion in one step."
        return
    found = tables(target)
    yield "In one step, in the order of the target's own table:"
    rows = (
        (short_name(row.source), short_name(row.target), row.overflow.value, row.rounding.value)
        for row in target.casts
    )
    yield _table(("from", "to", "beyond the range", "rounding"), rows)
    yield "By a chain of several:"
    chains = (
        (" > ".join(chain["path"]), ", ".join(chain["labels"]), ", ".join(chain["device_labels"]))
        for row in found["chains"].values()
        for chain in row.values()
    )
    yield _table(("chain", "compared with one Cast", "on the device"), chains)
    refused = [
        (f"{source} to {to}", why)
        for source, row in found["rejected"].items()
        for to, why in row.items()
    ]
    if refused:
        yield "Not at all:"
        yield _table(("pair", "because"), refused)


def _operands(target: Target) -> Iterator[str]:
    yield "## Matmul operands"
    if not target.operands:
        yield "No table is known: what is wanted is taken, the same for both operands."
        return
    yield "What an operand becomes, by what is wanted; the first row that fits counts:"
    rows = (
        (
            short_name(row.format),
            "anything" if row.wanted is None else short_name(row.wanted),
            "refused" if row.gives is None else short_name(row.gives),
            row.evidence,
        )
        for row in target.operands
    )
    yield _table(("operand", "wanted", "becomes", "evidence"), rows)
    yield "What it multiplies:"
    pairs = (
        (short_name(row.first), short_name(row.second), short_name(row.accumulator), row.evidence)
        for row in target.pairs
    )
    yield _table(("first", "second", "summed in", "evidence"), pairs)


def _codes_page() -> str:
    return "\n\n".join(
        (
            "# Codes",
            "What `onnxcast` prints and what stands in its reports, as `onnxcast explain` has it.",
            "## Reasons",
            "Why a type group has its format:",
            _codes("reason"),
            "## Findings",
            "What a pass did, or left alone:",
            _codes("finding"),
            "## Errors",
            "What ends a run; the exit code is that of the error:",
            _codes("error"),
            "## Guards of constants",
            "Why a constant that a narrowing Cast reads stays as it is:",
            _table(("guard", "is"), ((each.name, each.value) for each in ShrinkGuard)),
        )
    )


def _codes(kind: str) -> str:
    found = {text.code: text for text in known_codes().values() if text.kind == kind}
    rows = ((text.code, text.short, text.long) for text in found.values())
    return _table(("code", "is", "more"), rows)


def _meanings_page() -> str:
    rows = (
        (
            each.name,
            each.value,
            ", ".join(sorted({row.op for row in MEANINGS if row.meaning is each})),
        )
        for each in Meaning
    )
    return "# What operators mean\n\n" + _table(("meaning", "is", "operators"), rows)


def _tokens_page() -> str:
    rows = (
        (f"`{name}`", token.scope.value, "" if token.format is None else short_name(token.format))
        for name, token in TOKENS.items()
    )
    return "# Tokens\n\n" + _table(("token", "scope", "format"), rows)


def _table(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table in Markdown; what is empty says so."""
    titles = tuple(titles)
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: Any) -> str:
    return str(text).replace("|", "\\|") or "-"
