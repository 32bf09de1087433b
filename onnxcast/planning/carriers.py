"""Which data movement happens in the narrow format: that which needs the cheapest Casts.

Formats of computing nodes are fixed; carriers (what moves elements without looking at them) are
free. What costs nothing either way is narrow. A wide reader never sees data that was rounded only
for a carrier's sake: a carrier that any wide producer reaches through carriers is *tainted*, and if
it is narrow, so are all its readers. With fixed producers all this is pairwise, so that a minimum
cut is exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

from onnxcast.formats import Format
from onnxcast.planning.cast_cut import CastCut, Fixed
from onnxcast.planning.groups import Group
from onnxcast.planning.min_cut import SOURCE
from onnxcast.planning.prices import Prices
from onnxcast.planning.readers import Readers

__all__ = ["Carried", "place_carriers"]


class Carried(NamedTuple):
    """The carriers that are narrow, and those that are wide although they need not be.

    Attributes:
        behind: Narrow carriers of nothing but narrow data, and shape readers of such.
        ahead: Narrow carriers of wide data, which only narrow readers see.
        cheaper: Wide carriers that could be narrow, at a higher price.
        price: What the Casts of the whole plan cost.
        exact: Whether it is known that no other choice costs less.
    """

    behind: set[Group]
    ahead: set[Group]
    cheaper: set[Group]
    price: int
    exact: bool


def place_carriers(
    carriers: Sequence[Group], fixed: Fixed, narrow: Format, prices: Prices, readers: Readers
) -> Carried:
    """Choose the carriers that move narrow values.

    Args:
        carriers: Groups of carriers and of shape readers that may be narrow.
        fixed: What computing groups make and read in the narrow format.
        narrow: The format.
        prices: The prices of Casts.
        readers: Who reads the values of the model.
    """
    moving = [group for group in carriers if group.results or group.entries]
    cut = CastCut(moving, fixed, narrow, prices, readers)
    tainted = cut.tainted()
    cut.add_casts(tainted)
    wide, price, exact = cut.solve()
    values = set(fixed.results)
    behind, ahead, cheaper = set[Group](), set[Group](), set[Group]()
    for group in moving:
        if group in wide:
            must = group in tainted and _must_be_wide(group, cut)
            cheaper.update([] if must else [group])
            continue
        (ahead if group in tainted else behind).add(group)
        values.update(group.result_values())
    for group in carriers:
        if not (group.results or group.entries) and all(
            value in values for value in group.operand_values()
        ):
            behind.add(group)
    return Carried(behind, ahead, cheaper, price, exact)


def _must_be_wide(group: Group, cut: CastCut) -> bool:
    """Whether `group`, which wide data reaches, has a wide reader, or nobody would have it so."""
    found = set[int]().union(*map(cut.readers, group.result_values()))
    return SOURCE in found or not found
