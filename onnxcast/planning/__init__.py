"""Type groups, decisions with reasons, and the placement of Casts."""

from onnxcast.planning.groups import Group
from onnxcast.planning.pins import forget_pins, pin, pinned, unpin
from onnxcast.planning.placement import carry_out
from onnxcast.planning.plan import Decision, Plan, make_plan
from onnxcast.planning.planned_pass import PlannedPass
from onnxcast.planning.reasons import Reason

__all__ = [
    "Decision",
    "Group",
    "Plan",
    "PlannedPass",
    "Reason",
    "carry_out",
    "forget_pins",
    "make_plan",
    "pin",
    "pinned",
    "unpin",
]
