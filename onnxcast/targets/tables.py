"""The tables of a target as plain data, for people and machines: the seed's two, and its matmul."""

from typing import Any

from onnxcast.errors import RefusedError
from onnxcast.formats import FLOAT32, Format
from onnxcast.targets.chains import Chains
from onnxcast.targets.names import short_name
from onnxcast.targets.target import Target

__all__ = ["tables"]


def tables(target: Target, *, exact_bridges: bool = False) -> dict[str, Any]:
    """Native conversions, chains and rejected pairs by source, and operand types by what is wanted.

    Formats have their short names. Without a table of conversions the first three are empty.
    """
    chains = Chains(target, exact_bridges=exact_bridges)
    named = target.converted
    native: dict[str, list[str]] = {}
    found: dict[str, dict[str, Any]] = {}
    rejected: dict[str, dict[str, str]] = {}
    for source in named:
        row = short_name(source)
        native[row], found[row], rejected[row] = [], {}, {}
        for other in named:
            if other == source:
                continue
            chain = chains.find(source, other)
            if chain is None:
                rejected[row][short_name(other)] = chains.why_not(source, other)
            elif chain.hops == 1:
                native[row].append(short_name(other))
            else:
                found[row][short_name(other)] = chain.to_dict()
    return {
        "name": target.name,
        "aliases": list(target.aliases),
        "native": native,
        "chains": found,
        "rejected": rejected,
        "matmul": _matmul(target),
    }


def _matmul(target: Target) -> dict[str, dict[str, str]]:
    """Operand types by what is wanted; what is refused has no entry."""
    asked = (row.wanted or row.gives for row in target.operands if row.format == FLOAT32)
    wanted = dict.fromkeys(each for each in asked if each is not None)
    given = dict.fromkeys(row.format for row in target.operands)
    return {
        short_name(each): {
            short_name(format_): short_name(answer)
            for format_ in given
            if (answer := _answer(target, format_, each)) is not None
        }
        for each in wanted
    }


def _answer(target: Target, format_: Format, wanted: Format) -> Format | None:
    try:
        return target.matmul_operand_type(format_, wanted)
    except RefusedError:
        return None
