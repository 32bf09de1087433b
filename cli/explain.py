"""``onnxcast explain``: why one node has its format and what that costs; what a code means."""

__all__ = ["explain"]

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.padding import Padding

from onnxcast.errors import InputError

from .console import print_json, results
from .options import MODEL, as_json, cast_bridges, choice_of_format
from .tables import new_table, size

if TYPE_CHECKING:
    from onnxcast.explanation import Explanation


@click.command(short_help="Explain what is decided about a node, or what a code means.")
@click.argument("model", type=MODEL, metavar="MODEL|CODE")
@click.option("--node", metavar="NAME", help="A node of MODEL, or one of its results.")
@choice_of_format
@cast_bridges
@as_json
def explain(model: Path, node: str | None, as_json: bool, **narrowing: Any) -> None:
    """Explain which format a node gets, why, and by which conversions of the target.

    With a CODE instead of a model: what that reason, finding or error means.

    The opset is that of the model: onnxcast optimize may raise it. What data decides (ranges,
    repair) is known from the pins of an earlier run only.

    \b
    Examples:
      onnxcast explain model.onnx --node /encoder/MatMul
      onnxcast explain model.onnx --node logits --fp32-cast all --target ascend950
      onnxcast explain ACCUMULATING
      onnxcast explain OC202
    """
    if node is None:
        _explain_code(model, as_json=as_json)
        return
    import onnxcast

    found = onnxcast.explain(model, node, **narrowing)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _explain_code(asked: Path, *, as_json: bool) -> None:
    from onnxcast.codes import explain_code

    if asked.exists():
        raise InputError(f"{asked}: a node is wanted as well; name one with --node")
    found = explain_code(str(asked))
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    console = results()
    console.print(f"{found.code} ({found.kind})", style="bold")
    console.print(f"{found.short}.")
    console.print()
    console.print(found.long)


def _print(found: "Explanation") -> None:
    console = results()
    console.print(f"{found.node} ({found.op})", style="bold")
    console.print()
    console.print(found.text, soft_wrap=True)
    for row in found.groups:
        detail = f" ({row['detail']})" if row["detail"] else ""
        form = "" if row["form"] in ("WIDE", "NATIVE") else f", {row['form'].lower()} form"
        told = f"{row['variable']}: {row['format']}{form}, {row['because']}{detail}"
        console.print(Padding(f"{told} [{row['reason']}]", (0, 0, 0, 4)))
    if not found.groups:
        console.print("    no float32 operand or result: nothing to decide")
    if found.casts:
        console.print()
        casts = new_table("where", "cast", "how", ">conversions", ">bytes")
        for cast in found.casts:
            casts.add_row(cast.where, cast.cast, cast.how, str(cast.hops), size(cast.bytes))
        console.print(casts)
