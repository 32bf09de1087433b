"""Type groups, decisions with reasons, and the placement of Casts."""

from onnxcast.planning.bound import Bound
from onnxcast.planning.copies import is_copied
from onnxcast.planning.costs import CastCosts, CastPrice, cast_costs, cast_prices
from onnxcast.planning.groups import Group, Kind
from onnxcast.planning.marks import forget_marks, is_marked, marked_format, marked_operands
from onnxcast.planning.moves import CastMoves, Move
from onnxcast.planning.operands import unmultiplied
from onnxcast.planning.opsets import native_opset
from onnxcast.planning.pins import (
    PinLevel,
    fall_back,
    falls_back,
    forget_pins,
    pin,
    pin_level,
    pin_of,
    pinned,
    unpin,
)
from onnxcast.planning.placement import carry_out
from onnxcast.planning.plan import Decision, Form, Plan
from onnxcast.planning.planned_pass import PlannedPass
from onnxcast.planning.planner import make_plan
from onnxcast.planning.reasons import Reason
from onnxcast.planning.roundings import is_planned_rounding, mark_roundings
from onnxcast.planning.routes import IllegalCast, Route, Routes
from onnxcast.planning.storage import Rounded

__all__ = [
    "Bound",
    "CastCosts",
    "CastMoves",
    "CastPrice",
    "Decision",
    "Form",
    "Group",
    "IllegalCast",
    "Kind",
    "Move",
    "PinLevel",
    "Plan",
    "PlannedPass",
    "Reason",
    "Rounded",
    "Route",
    "Routes",
    "carry_out",
    "cast_costs",
    "cast_prices",
    "fall_back",
    "falls_back",
    "forget_marks",
    "forget_pins",
    "is_copied",
    "is_marked",
    "is_planned_rounding",
    "make_plan",
    "mark_roundings",
    "marked_format",
    "marked_operands",
    "native_opset",
    "pin",
    "pin_level",
    "pin_of",
    "pinned",
    "unmultiplied",
    "unpin",
]
