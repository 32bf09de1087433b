"""``onnxcast targets``: what targets there are, and the tables of one."""

__all__ = ["targets"]

from typing import TYPE_CHECKING, Any

import click

from .console import print_json, results
from .options import as_json, cast_bridges, help_alone
from .tables import new_table

if TYPE_CHECKING:
    from onnxcast.targets import Target


@click.group(invoke_without_command=True, short_help="List targets, or show what one takes.")
@as_json
@click.pass_context
def targets(context: click.Context, as_json: bool) -> int | None:
    """List the targets; with ``show``, what one of them converts and multiplies.

    A target is built in, comes from an installed package (entry points onnxcast.targets), or is a
    profile in TOML, given as a path that ends in .toml.

    \b
    Examples:
      onnxcast targets
      onnxcast targets show ascend950
      onnxcast targets show ./mychip.toml --json
    """
    if context.invoked_subcommand is not None:
        return help_alone(context)
    from onnxcast.targets import all_targets

    known = all_targets()
    if as_json:
        print_json([_summary(target) for target in known])
        return None
    table = new_table("target", "also", "prefers", ">conversions", "opsets", "matmul operands")
    for row in map(_summary, known):
        opsets = "any" if row["opsets"] is None else "{} to {}".format(*row["opsets"])
        conversions = "any" if row["conversions"] is None else str(row["conversions"])
        operands = ", ".join(row["matmul"]) or "any"
        also = ", ".join(row["aliases"])
        table.add_row(row["name"], also, row["preferred"], conversions, opsets, operands)
    results().print(table)
    return None


def _summary(target: "Target") -> dict[str, Any]:
    from onnxcast.targets import short_name, tables

    return {
        "name": target.name,
        "aliases": list(target.aliases),
        "preferred": short_name(target.preferred),
        "conversions": None if target.casts is None else len(target.casts),
        "opsets": None if target.opsets is None else list(target.opsets),
        "matmul": list(tables(target)["matmul"]),
    }


@targets.command(short_help="Show the conversions and matmul operands of one target.")
@click.argument("name")
@cast_bridges
@as_json
def show(name: str, cast_bridges: str, as_json: bool) -> None:
    """Show what is one conversion, what a chain of (n), what is rejected, and matmul operands.

    \b
    Examples:
      onnxcast targets show ascend950
      onnxcast targets show a2a3 --cast-bridges exact
    """
    from onnxcast import make_policy
    from onnxcast.targets import get_target, tables

    target = get_target(name)
    found = tables(target, exact_bridges=make_policy(cast_bridges=cast_bridges).exact_bridges)
    if as_json:
        print_json(found)
        return
    results().print(target.architecture, style="bold")
    if target.casts is None:
        results().print("no table of conversions: any is taken")
    else:
        _print_conversions(found)
    _print_operands(target, found)
    if target.command:
        results().print(f"next: {target.next_command('MODEL.onnx')}", soft_wrap=True)
    for sentence in target.advice:
        results().print(sentence)


def _print_conversions(found: dict[str, Any]) -> None:
    table = new_table("from", "native", "chain (conversions)")
    for source, native in sorted(found["native"].items()):
        chains = sorted(
            (len(chain["path"]) - 1, target) for target, chain in found["chains"][source].items()
        )
        told = ", ".join(f"{target}({hops})" for hops, target in chains)
        table.add_row(source, ", ".join(sorted(native)), told)
    results().print(table)
    results().print()
    ways = new_table("chain", "compared with one Cast", "on the device")
    for row in found["chains"].values():
        for chain in row.values():
            device = ", ".join(chain["device_labels"])
            ways.add_row(" > ".join(chain["path"]), ", ".join(chain["labels"]), device)
    results().print(ways)
    results().print()
    reasons = new_table("rejected", "because")
    for source, row in found["rejected"].items():
        for target, why in row.items():
            reasons.add_row(f"{source} to {target}", why)
    if reasons.row_count:
        results().print(reasons)
        results().print()


def _print_operands(target: "Target", found: dict[str, Any]) -> None:
    from onnxcast.targets import short_name

    if not found["matmul"]:
        results().print("no table of matmul operands: what is wanted is taken, the same for both")
        return
    given = dict.fromkeys(short_name(row.format) for row in target.operands)
    table = new_table("operand", *(f"{wanted} wanted" for wanted in found["matmul"]))
    for each in given:
        answers = (row.get(each, "refused") for row in found["matmul"].values())
        table.add_row(each, *answers)
    results().print(table)
    results().print()
    pairs = new_table("operands", "summed in", "evidence")
    for pair in target.pairs:
        names = f"{short_name(pair.first)} x {short_name(pair.second)}"
        pairs.add_row(names, short_name(pair.accumulator), pair.evidence)
    results().print(pairs)
    results().print()
