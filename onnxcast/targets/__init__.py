"""Targets: the tables that say what a piece of hardware takes."""

from onnxcast.targets.chains import Chain, Chains
from onnxcast.targets.names import format_of, short_name
from onnxcast.targets.profile import read_profile
from onnxcast.targets.registry import GENERIC, all_targets, get_target, target_names
from onnxcast.targets.rows import NativeCast, Operand, Overflow, Pair, Rounding
from onnxcast.targets.rules import why_refused
from onnxcast.targets.tables import tables
from onnxcast.targets.target import Target

__all__ = [
    "GENERIC",
    "Chain",
    "Chains",
    "NativeCast",
    "Operand",
    "Overflow",
    "Pair",
    "Rounding",
    "Target",
    "all_targets",
    "format_of",
    "get_target",
    "read_profile",
    "short_name",
    "tables",
    "target_names",
    "why_refused",
]
