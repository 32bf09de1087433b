"""Targets: the tables that say what a piece of hardware takes."""

from onnxcast.targets.registry import GENERIC, get_target, target_names
from onnxcast.targets.target import Target

__all__ = ["GENERIC", "Target", "get_target", "target_names"]
