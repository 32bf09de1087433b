"""Which nodes the user keeps wide, or narrows whatever the op means.

A pattern is a shell pattern (``/head/*``), or a regular expression after ``re:`` that must match
the whole name (``re:/layer[0-9]+/.*``).
"""

import dataclasses
import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.graph.walk import label, op_name

__all__ = ["Choice", "Chooser", "Selection"]

Chooser: TypeAlias = Callable[[ir.Node], object]
"""Answers ``"narrow"``, ``"wide"`` or None, which leaves the decision to the rules."""

_REGEX = "re:"

Wish: TypeAlias = Literal["narrow", "wide"]

_WISHES: tuple[Wish, ...] = ("narrow", "wide")


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the user said about one node.

    Attributes:
        wish: What becomes of it.
        by: What said so: ``op``, ``node`` or ``policy``.
        detail: The op or the node's name.
    """

    wish: Wish
    by: Literal["op", "node", "policy"]
    detail: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Patterns of op types and node names, and a function that is asked for the other nodes."""

    keep_ops: frozenset[str] = frozenset()
    keep_nodes: frozenset[str] = frozenset()
    narrow_ops: frozenset[str] = frozenset()
    narrow_nodes: frozenset[str] = frozenset()
    choose: Chooser | None = None

    @classmethod
    def of(
        cls,
        *,
        keep_ops: Iterable[str],
        keep_nodes: Iterable[str],
        narrow_ops: Iterable[str],
        narrow_nodes: Iterable[str],
        choose: Chooser | None,
    ) -> "Selection":
        """Check what the user gave.

        Raises:
            InputError: Patterns that are no list or no regular expression, or `choose` cannot be
                called.
        """
        if choose is not None and not callable(choose):
            raise InputError(f"policy {choose!r}: a function of a node is wanted")
        return cls(
            keep_ops=_patterns("keep_ops", keep_ops),
            keep_nodes=_patterns("keep_nodes", keep_nodes),
            narrow_ops=_patterns("narrow_ops", narrow_ops),
            narrow_nodes=_patterns("narrow_nodes", narrow_nodes),
            choose=choose,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said about any node."""
        patterns = self.keep_ops or self.keep_nodes or self.narrow_ops or self.narrow_nodes
        return not patterns and self.choose is None

    def check(self, nodes: Sequence[ir.Node]) -> None:
        """Let no pattern be in vain.

        Raises:
            InputError: A pattern that matches nothing in `nodes` (with the nearest names).
        """
        if self.is_empty:
            return
        ops = {op_name(node) for node in nodes}
        names = {node.name for node in nodes if node.name}
        _check("op", self.keep_ops, ops, "kept wide")
        _check("node", self.keep_nodes, names, "kept wide")
        _check("op", self.narrow_ops, ops, "narrowed")
        _check("node", self.narrow_nodes, names, "narrowed")

    def choice(self, node: ir.Node) -> Choice | None:
        """What the user said about `node`; None if nothing.

        What is said of a node by name counts more than what is said of its op, and both more than
        the function's answer.

        Raises:
            InputError: One kind of pattern says both, or the function answers something else.
        """
        by_name = _wish(node.name or "", self.keep_nodes, self.narrow_nodes, "node")
        if by_name is not None:
            return by_name
        by_op = _wish(op_name(node), self.keep_ops, self.narrow_ops, "op")
        if by_op is not None or self.choose is None:
            return by_op
        answer = self.choose(node)
        if answer is None:
            return None
        for wish in _WISHES:
            if answer == wish:
                return Choice(wish, "policy", label(node))
        raise InputError(
            f"policy({label(node)}) answers {answer!r}: 'narrow', 'wide' or None is wanted"
        )


def _wish(
    name: str, kept: frozenset[str], narrowed: frozenset[str], kind: Literal["op", "node"]
) -> Choice | None:
    """What the patterns of one kind say of `name`; the name itself counts more than a pattern."""
    keep, narrow = name in kept, name in narrowed
    if not (keep or narrow):
        keep = any(_matches(name, pattern) for pattern in kept)
        narrow = any(_matches(name, pattern) for pattern in narrowed)
    if keep and narrow:
        raise InputError(
            f"{kind} {name!r} is to be kept wide and to be narrowed: take it out of one of the two"
        )
    if not (keep or narrow):
        return None
    return Choice("wide" if keep else "narrow", kind, name)


def _matches(name: str, pattern: str) -> bool:
    if not name:
        return False
    if pattern.startswith(_REGEX):
        return re.fullmatch(pattern[len(_REGEX) :], name) is not None
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def _patterns(kind: str, given: object) -> frozenset[str]:
    # A string is a sequence of strings too: 'Conv' would keep the ops C, o, n and v.
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise InputError(f"{kind} {given!r}: a list of patterns is wanted, such as ['Softmax']")
    found = list(given)
    for pattern in found:
        if not isinstance(pattern, str):
            raise InputError(f"{kind} {given!r}: a list of patterns is wanted, such as ['Softmax']")
        if pattern.startswith(_REGEX):
            _check_regex(kind, pattern)
    return frozenset(found)


def _check_regex(kind: str, pattern: str) -> None:
    try:
        re.compile(pattern[len(_REGEX) :])
    except re.error as error:
        raise InputError(f"{kind} {pattern!r}: no regular expression ({error}); mend it") from None


def _check(kind: str, patterns: Iterable[str], names: set[str], fate: str) -> None:
    for pattern in sorted(patterns):
        if any(_matches(name, pattern) for name in names):
            continue
        near = difflib.get_close_matches(pattern, sorted(names), n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise InputError(f"no {kind} of the model matches {pattern!r} to be {fate}{hint}")
