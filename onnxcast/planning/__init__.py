"""Type groups, decisions with reasons, and the placement of Casts."""

from onnxcast.planning.groups import Group
from onnxcast.planning.marks import forget_marks, is_marked, marked_format, marked_operands
from onnxcast.planning.operands import unmultiplied
from onnxcast.planning.opsets import native_opset
from onnxcast.planning.pins import PinLevel, forget_pins, pin, pin_level, pin_of, pinned, unpin
from onnxcast.planning.placement import carry_out
from onnxcast.planning.plan import Decision, Form, Plan
from onnxcast.planning.planned_pass import PlannedPass
from onnxcast.planning.planner import make_plan
from onnxcast.planning.reasons import Reason
from onnxcast.planning.routes import IllegalCast, Route, Routes, cast_bytes, written
from onnxcast.planning.storage import Rounded

__all__ = [
    "Decision",
    "Form",
    "Group",
    "IllegalCast",
    "PinLevel",
    "Plan",
    "PlannedPass",
    "Reason",
    "Rounded",
    "Route",
    "Routes",
    "carry_out",
    "cast_bytes",
    "forget_marks",
    "forget_pins",
    "is_marked",
    "make_plan",
    "marked_format",
    "marked_operands",
    "native_opset",
    "pin",
    "pin_level",
    "pin_of",
    "pinned",
    "unmultiplied",
    "unpin",
    "written",
]
