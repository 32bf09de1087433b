"""What passes find out about a model and others ask for, as long as it holds."""

import dataclasses

import onnx_ir as ir

from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.passes import (
    FoldCastsPass,
    LegaliseCastsPass,
    LowerBoolCastsPass,
    NormalisePass,
    SpecialiseFunctionsPass,
)
from onnxcast.planning import PlannedPass

__all__ = ["Knowledge"]

_TYPED = (FoldCastsPass, LowerBoolCastsPass, LegaliseCastsPass)
"""Passes that can be told the element types of a model without functions."""


@dataclasses.dataclass
class Knowledge:
    """What is known of one model between its passes.

    Attributes:
        types: The element types of its values, but for those in functions.
        types_inside: Of these, too.
        shapes: Of the model as it is, or as it was before Casts were added.
    """

    types: ElementTypes | None = None
    types_inside: ElementTypes | None = None
    shapes: Shapes | None = None

    def planned(self, model: ir.Model) -> ElementTypes | None:
        """The types that a plan of `model` asks for."""
        return self.types_inside if model.functions else self.types

    def tell(self, pass_: ir.passes.InPlacePass, model: ir.Model) -> None:
        """Tell `pass_` what it would have to find out of `model`."""
        if isinstance(pass_, PlannedPass):
            pass_.types = self.planned(model)
        elif isinstance(pass_, NormalisePass) and self.types_inside is not None:
            pass_.types = self.types_inside.outside()
        elif isinstance(pass_, _TYPED) and not model.functions:
            pass_.types = self.types
        if isinstance(pass_, LegaliseCastsPass):
            pass_.shapes = self.shapes

    def hear(self, pass_: ir.passes.InPlacePass, *, modified: bool) -> None:
        """Note what `pass_` found, and forget what no longer holds if it modified the model."""
        if modified:
            self.types = self.types_inside = None
        if isinstance(pass_, SpecialiseFunctionsPass):
            self.types_inside = pass_.types
        elif isinstance(pass_, NormalisePass):
            self.types = pass_.types_after
        elif isinstance(pass_, PlannedPass) and pass_.plan is not None:
            self.types, self.shapes = pass_.types_after, pass_.plan.shapes
