"""What a chain of conversions makes of values, compared with one Cast as ONNX defines it.

Exactly one of these, unless the chain wraps differently:

- ``exact``: every value of the source gives what one Cast gives;
- ``single rounding``: the same, although an intermediate rounds: only values that overflow anyway;
- ``double rounding``: an intermediate rounds values in range, so results may be one step off.

``wraps differently``: an integer beyond the range of an integer destination, of which ONNX drops
the high bits, gives something else; together with ``double rounding`` if values in range do too.
Sources: seed tile-cast "Numerics"; ONNX Cast.
"""

import dataclasses
import itertools
import math

from onnxcast.formats import Format, Kind, contains
from onnxcast.targets.target import Target

__all__ = ["device_labels", "labels"]

_EXACT = "exact"
_SINGLE_ROUNDING = "single rounding"
_DOUBLE_ROUNDING = "double rounding"
_WRAPS_DIFFERENTLY = "wraps differently"

_INTEGERS = frozenset((Kind.SIGNED, Kind.UNSIGNED))


def labels(path: tuple[Format, ...]) -> frozenset[str]:
    """The labels of a chain along `path`."""
    source, *middle, target = path
    keeps = _keeps_low_bits(source, middle, target)
    integers = {source.kind, target.kind} <= _INTEGERS
    wraps = integers and not keeps and not contains(target, source)
    if not wraps and (keeps or all(contains(mid, source) for mid in middle)):
        return frozenset((_EXACT,))
    within = _limited(source, target)
    rounds = not all(_keeps(mid, within, target) for mid in middle)
    if wraps:
        return frozenset((_WRAPS_DIFFERENTLY, *((_DOUBLE_ROUNDING,) if rounds else ())))
    return frozenset((_DOUBLE_ROUNDING if rounds else _SINGLE_ROUNDING,))


def _keeps_low_bits(source: Format, middle: list[Format], target: Format) -> bool:
    """Whether all are integers and no intermediate is shorter than the destination.

    Dropping high bits twice is dropping them once.
    """
    integers = {each.kind for each in (source, *middle, target)} <= _INTEGERS
    return integers and all(mid.bits >= target.bits or contains(mid, source) for mid in middle)


def _keeps(mid: Format, within: Format, target: Format) -> bool:
    """Whether an intermediate leaves what the destination makes of the values that matter."""
    if within.kind is Kind.FLOAT and mid.kind in _INTEGERS:
        return contains(mid, target)  # it truncates as the destination would
    return contains(mid, within)


def _limited(source: Format, target: Format) -> Format:
    """`source` without the values that overflow in `target` however they were rounded before.

    Nor those that are 0 in an integer, which are below one half: no rounding makes them 1.
    """
    exponent = math.frexp(target.max)[1]
    high = math.inf if exponent > 1023 else math.ldexp(1.0, exponent)
    if source.kind not in _INTEGERS:
        emin = max(source.emin, -1) if target.kind in _INTEGERS else source.emin
        low, high = max(-high, source.min), min(high, source.max)
        return dataclasses.replace(source, min=low, max=high, emin=emin)
    top = int(min(high, source.max))
    bottom = int(max(-high if target.signed else 0, source.min))
    bits = max(top, -bottom).bit_length()
    return dataclasses.replace(source, min=bottom, max=top, significand=bits, emin=bits - 1)


def device_labels(target: Target, path: tuple[Format, ...]) -> frozenset[str]:
    """What the conversions along `path` do on the device, where they lose something."""
    found: set[str] = set()
    held = path[0]  # what all values are still values of
    for source, following in itertools.pairwise(path):
        row = target.native_cast(source, following)
        if row is None or contains(following, held):
            continue
        if held.min < following.min or held.max > following.max:
            found.add(row.overflow.value)
        if not {source.kind, following.kind} <= _INTEGERS:
            found.add(row.rounding.value)
        held = following
    return frozenset(found)
