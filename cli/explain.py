"""``onnxcast explain``: why one node has its format, and what that costs on the target."""

__all__ = ["explain"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import print_json, results
from .options import MODEL, as_json, cast_bridges, choice_of_format
from .tables import new_table, size

if TYPE_CHECKING:
    from onnxcast.explanation import Explanation


@click.command(short_help="Explain what is decided about one node, and what it costs.")
@click.argument("model", type=MODEL)
@click.option("--node", required=True, metavar="NAME", help="A node, or one of its results.")
@choice_of_format
@cast_bridges
@as_json
def explain(model: Path, node: str, as_json: bool, **narrowing: Any) -> None:
    """Explain which format a node gets, why, and by which conversions of the target.

    The opset is that of the model: onnxcast optimize may raise it. What data decides (ranges,
    repair) is known from the pins of an earlier run only.

    \b
    Examples:
      onnxcast explain model.onnx --node /encoder/MatMul
      onnxcast explain model.onnx --node logits --fp32-cast all --target ascend950
    """
    import onnxcast

    found = onnxcast.explain(model, node, **narrowing)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: "Explanation") -> None:
    console = results()
    console.print(f"{found.node} ({found.op})", style="bold")
    console.print()
    if found.groups:
        table = new_table("type group", "format", "form", "because", "detail")
        for row in found.groups:
            because = f"{row['reason']}: {row['because']}"
            table.add_row(row["variable"], row["format"], row["form"], because, row["detail"])
        console.print(table)
    else:
        console.print("no float32 operand or result: nothing to decide")
    if found.casts:
        console.print()
        casts = new_table("where", "cast", "how", ">conversions", ">bytes")
        for cast in found.casts:
            casts.add_row(cast.where, cast.cast, cast.how, str(cast.hops), size(cast.bytes))
        console.print(casts)
