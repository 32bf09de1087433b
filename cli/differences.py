"""What is other in one model than in another: figures, ops, and the formats of nodes."""

__all__ = ["show_difference"]

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .console import print_json, results
from .tables import new_table, size

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxcast.targets import Target

_BYTES = ("cast_bytes", "tensor_bytes")


def show_difference(
    before: "tuple[ir.Model, dict[str, Any]]",
    after: "tuple[ir.Model, dict[str, Any]]",
    target: "Target",
    *,
    as_json: bool,
) -> None:
    """Print what is other in a model.

    Args:
        before: A model and its facts, as `inspect` gives them.
        after: Another one.
        target: What Casts are counted for.
        as_json: Whether to print for machines.
    """
    facts = _changed(_flat(before[1]), _flat(after[1]))
    formats = _formats(before[0], after[0], target)
    if as_json:
        print_json({"facts": facts, "formats": formats})
    elif not facts and not formats:
        results().print("no difference in figures, types or formats")
    else:
        _print(facts, formats)


def _flat(facts: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Facts by one name each; inputs and outputs by theirs."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{within}{name} ")
        elif isinstance(value, list):
            found |= {f"{name} {each['name']}": f"{each['type']} {each['shape']}" for each in value}
        else:
            found[f"{within}{name}"] = value
    return found


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"what": name, "before": before.get(name), "after": after.get(name)}
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _formats(before: "ir.Model", after: "ir.Model", target: "Target") -> list[dict[str, str]]:
    """The nodes that have results in another format, by their results' names."""
    from onnxcast.drawing import draw

    was = {value: node for node in draw(before, target) for value in node.gives}
    drawn = draw(after, target)
    found = []
    for last in drawn:
        source = was.get(last.gives[0]) if last.gives else None
        if source is None:
            continue
        node = last
        while node.op == "Cast" != source.op and node.reads:  # a new Cast took over the name
            node = drawn[node.reads[0]]
        if node.format and node.format != source.format:
            found.append(
                {
                    "node": node.name,
                    "op": node.op,
                    "before": source.format,
                    "after": node.format,
                }
            )
    return found


def _print(facts: list[dict[str, Any]], formats: list[dict[str, str]]) -> None:
    console = results()
    table = new_table("", ">before", ">after")
    for each in facts:
        what = each["what"]
        shown = (_shown(what, each[side]) for side in ("before", "after"))
        table.add_row(what.replace("op_types ", "").replace("_", " "), *shown)
    console.print(table)
    if not formats:
        return
    console.print()
    nodes = new_table(">nodes", "op", "before", "after")
    counts = Counter((each["op"], each["before"], each["after"]) for each in formats)
    for row, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        nodes.add_row(str(count), *row)
    console.print(nodes)


def _shown(what: str, value: Any) -> str:
    if value is None:
        return "-"
    return size(value) if what.startswith(_BYTES) else str(value)
