"""Islands: what is cheaper to leave float32, as the Casts around it move more than it saves.

Before (all of it may be narrow, but Floor)::

    a = Floor (x)
    b = Sigmoid (a)     # float16 would take a Cast before it and one after it
    y = Floor (b)

Pinned ops, graph inputs and outputs are wide, matmul-like ops are narrow. What is left pays for the
bytes that it moves beyond the narrow ones if it stays wide, and for Casts where narrow and wide
meet: a minimum cut. Data movement costs nothing here; where it is narrow is decided afterwards.
"""

from collections.abc import Sequence

from onnxcast.formats import Format
from onnxcast.planning.cast_cut import CastCut, Fixed
from onnxcast.planning.groups import Group
from onnxcast.planning.prices import Prices
from onnxcast.planning.readers import Readers

__all__ = ["find_islands"]


def find_islands(
    computing: Sequence[Group],
    carriers: Sequence[Group],
    fixed: Fixed,
    narrow: Format,
    prices: Prices,
    readers: Readers,
) -> set[Group]:
    """Those of `computing` that stay wide in the cheapest cut; as few as there can be.

    Args:
        computing: Groups that may run in the narrow format.
        carriers: Groups of carriers that may be narrow.
        fixed: What other groups make and read in the narrow format.
        narrow: The format.
        prices: The prices of Casts, and of what stays wide.
        readers: Who reads the values of the model.
    """
    cut = CastCut([*computing, *carriers], fixed, narrow, prices, readers)
    cut.add_casts()
    for group in computing:
        cut.charge(group, prices.wide(group))
    return cut.solve().wide.intersection(computing)
