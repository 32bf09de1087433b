"""The passes, one a module; each is an `onnx_ir.passes.InPlacePass` with a truthful `modified`."""

from onnxcast.passes.autocast import AutocastPass
from onnxcast.passes.clamp_masks import ClampMasksPass
from onnxcast.passes.fold_casts import FoldCastsPass
from onnxcast.passes.inline_functions import InlineFunctionsPass
from onnxcast.passes.inputs import InputsPass
from onnxcast.passes.io_types import IoTypesPass
from onnxcast.passes.legalise_casts import LegaliseCastsPass
from onnxcast.passes.lower_bool_casts import LowerBoolCastsPass
from onnxcast.passes.matmul_operands import MatmulOperandsPass
from onnxcast.passes.normalise import NormalisePass
from onnxcast.passes.retype_fills import RetypeFillsPass
from onnxcast.passes.shrink_initializers import ShrinkInitializersPass
from onnxcast.passes.specialise_functions import SpecialiseFunctionsPass
from onnxcast.passes.tidy import TidyPass

__all__ = [
    "AutocastPass",
    "ClampMasksPass",
    "FoldCastsPass",
    "InlineFunctionsPass",
    "InputsPass",
    "IoTypesPass",
    "LegaliseCastsPass",
    "LowerBoolCastsPass",
    "MatmulOperandsPass",
    "NormalisePass",
    "RetypeFillsPass",
    "ShrinkInitializersPass",
    "SpecialiseFunctionsPass",
    "TidyPass",
]
