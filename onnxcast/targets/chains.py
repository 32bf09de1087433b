"""Chains: the shortest ways from one format to another over the conversions that a target has.

The search is that of PyPTO's LegalizeTileCast (seed tile-cast): breadth first over the target's
table, in its order, past intermediates that narrow relative to the destination. Among chains of the
same length the cheapest counts, then the one that the table's order finds first.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from onnxcast.formats import FLOAT16, FLOAT32, Format, Kind, contains
from onnxcast.targets.labels import device_labels, labels
from onnxcast.targets.names import short_name
from onnxcast.targets.target import Target

__all__ = ["Chain", "Chains"]

_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED)
_NUMBERS = frozenset((Kind.FLOAT, *_INTEGERS))


@dataclasses.dataclass(frozen=True)
class Chain:
    """A way from one format to another.

    Attributes:
        path: The formats, source and destination included.
        labels: What it makes of values, compared with one ONNX Cast (`onnxcast.targets.labels`).
        device_labels: What the device's conversions do beyond ONNX's words.
    """

    path: tuple[Format, ...]
    labels: frozenset[str]
    device_labels: frozenset[str]

    @property
    def hops(self) -> int:
        """The number of conversions."""
        return len(self.path) - 1

    @property
    def element_bits(self) -> int:
        """Bits that all hops together write for one element."""
        return sum(format_.bits for format_ in self.path[1:])

    @property
    def described(self) -> str:
        """The path with its labels, for people."""
        return f"{self} ({', '.join(sorted(self.labels))})"

    def to_dict(self) -> dict[str, Any]:
        """Path and labels as plain data, formats by their short names."""
        return {
            "path": [short_name(each) for each in self.path],
            "labels": sorted(self.labels),
            "device_labels": sorted(self.device_labels),
        }

    def __str__(self) -> str:
        return " > ".join(format_.name for format_ in self.path)


class Chains:
    """The chains of one target, each found once.

    Args:
        target: One with a table of conversions.
        exact_bridges: Whether a chain may also go through formats that hold every value of the
            source, where the rule of the hardware's compiler finds none.
        without: Formats that it may not go through in any case.
    """

    def __init__(
        self,
        target: Target,
        *,
        exact_bridges: bool = False,
        without: frozenset[Format] = frozenset(),
    ) -> None:
        self._target = target
        self._exact_bridges = exact_bridges
        self._without = without
        self._next: dict[Format, list[Format]] = {}
        for row in target.casts or ():
            self._next.setdefault(row.source, []).append(row.target)
        self._found: dict[tuple[Format, Format], Chain | None] = {}

    def find(self, source: Format, target: Format) -> Chain | None:
        """The chain from `source` to `target`; None if there is none."""
        key = (source, target)
        if key not in self._found:
            path = self._search(source, target, exact=False)
            if path is None and self._exact_bridges:
                path = self._search(source, target, exact=True)
            self._found[key] = None
            if path is not None:
                self._found[key] = self.chain(path)
        return self._found[key]

    def chain(self, path: tuple[Format, ...]) -> Chain:
        """The chain along `path`, whose conversions the target has."""
        return Chain(path, labels(path), device_labels(self._target, path))

    def why_not(self, source: Format, target: Format) -> str:
        """Why `find` gives None: the shortest way that is barred, or that there is no way."""
        path = self._search(source, target, exact=None)
        if path is None:
            if source not in self._next:
                return f"nothing leads from {source}"
            at = " at this opset" if self._without else ""
            return f"no way leads from {source} to {target}{at}"
        barred = next(mid for mid in path[1:-1] if not self._admits(mid, source, target, False))
        way = " > ".join(format_.name for format_ in path)
        return f"only {way}, where {barred} is narrower than {target} asks for"

    def _search(
        self, source: Format, target: Format, *, exact: bool | None
    ) -> tuple[Format, ...] | None:
        """The path by breadth first; `exact` says which intermediates count, None for all."""
        depth, cost = {source: 0}, {source: 0}
        parent: dict[Format, Format] = {}
        queue = [source]
        for current in queue:
            for following in self._neighbours(current):
                if following != target and not self._admits(following, source, target, exact):
                    continue
                total = cost[current] + _edge_cost(current, following)
                if following not in depth:
                    depth[following] = depth[current] + 1
                    queue.append(following)
                elif depth[following] != depth[current] + 1 or total >= cost[following]:
                    continue
                cost[following], parent[following] = total, current
        if target not in parent:
            return None
        return tuple(reversed(list(_ancestors(target, parent))))

    def _admits(self, mid: Format, source: Format, target: Format, exact: bool | None) -> bool:
        numbers = {mid.kind, target.kind} <= _NUMBERS
        if mid in self._without or not numbers:
            return False
        if exact is None:
            return True
        return contains(mid, source) if exact else not _narrows(mid, target)

    def _neighbours(self, format_: Format) -> list[Format]:
        """What one hop leads to, the float of the same width exchanged with the first."""
        following = list(self._next.get(format_, ()))
        wide = {32: FLOAT32, 16: FLOAT16}.get(format_.bits)
        if format_.kind in _INTEGERS and wide in following:
            position = following.index(wide)
            following[0], following[position] = following[position], following[0]
        return following


def _ancestors(format_: Format, parent: dict[Format, Format]) -> Iterator[Format]:
    yield format_
    while format_ in parent:
        format_ = parent[format_]
        yield format_


def _edge_cost(source: Format, target: Format) -> int:
    if target.kind is not Kind.FLOAT:
        return 2
    if source.kind is Kind.FLOAT:
        return 1
    return 0 if source.bits == target.bits else 2


def _narrows(mid: Format, target: Format) -> bool:
    """Whether an intermediate holds less than the destination asks for (PyPTO's rule).

    The source does not count. Floats of 8 bits and less are not judged.
    """
    kinds = mid.kind, target.kind
    if kinds == (Kind.FLOAT, Kind.FLOAT):
        judged = min(mid.bits, target.bits) > 8
        return judged and (mid.significand < target.significand or mid.emin > target.emin)
    if target.kind is Kind.FLOAT:
        return mid.kind in _INTEGERS
    if mid.kind is Kind.FLOAT:
        return mid.bits > 8 and mid.significand < target.significand
    if kinds == (Kind.UNSIGNED, Kind.SIGNED):
        return True
    return mid.significand < target.significand
