"""onnxcast: mixed precision for ONNX models, proved with onnxruntime.

Names are imported when they are first used: the process that runs onnxruntime needs none of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxcast.api import Result, optimize, verify
    from onnxcast.errors import InputError, OnnxcastError, RefusedError, VerificationError
    from onnxcast.pipeline import build_pipeline
    from onnxcast.policy import Policy, make_policy
    from onnxcast.preview import Explanation, explain, plan
    from onnxcast.targets import Target

__all__ = [
    "Explanation",
    "InputError",
    "OnnxcastError",
    "Policy",
    "RefusedError",
    "Result",
    "Target",
    "VerificationError",
    "build_pipeline",
    "explain",
    "make_policy",
    "optimize",
    "plan",
    "verify",
]

_HOMES = {
    "onnxcast.api": ("Result", "optimize", "verify"),
    "onnxcast.errors": ("InputError", "OnnxcastError", "RefusedError", "VerificationError"),
    "onnxcast.pipeline": ("build_pipeline",),
    "onnxcast.policy": ("Policy", "make_policy"),
    "onnxcast.preview": ("Explanation", "explain", "plan"),
    "onnxcast.targets": ("Target",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'onnxcast' has no attribute {name!r}")
