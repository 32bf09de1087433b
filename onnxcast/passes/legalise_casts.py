"""Replace Casts that the target lacks by the shortest chain of conversions that it has.

Before::

    y = Cast <to = 10> (x)         # x is int32

After (ascend950)::

    x_float32 = Cast <to = 1> (x)
    y = Cast <to = 10> (x_float32)

Chains that begin alike share their first Casts. What has no chain is refused with all others of its
kind, or left alone on request. A target without a table of conversions has them all. Seed: PyPTO
LegalizeTileCast.
"""

from collections.abc import Sequence

import onnx_ir as ir

from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.errors import RefusedError
from onnxcast.files import collector_paused
from onnxcast.graph.edit import Casts
from onnxcast.graph.findings import finding_about
from onnxcast.graph.schemas import ONNX_DOMAINS
from onnxcast.graph.shapes import Shapes
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import model_nodes
from onnxcast.planning import IllegalCast, Route, Routes
from onnxcast.targets import Target

__all__ = ["LegaliseCastsPass"]

_AS_ONE_CAST = ("exact", "single rounding")


class LegaliseCastsPass(ir.passes.InPlacePass):
    """Leaves Casts that the target has, and no others.

    Args:
        target: Tells the conversions.
        exact_bridges: Whether chains may also go through formats that hold every value of the
            source.
        keep_illegal: Whether Casts that no chain replaces are left alone.
        exact_only: Whether chains that may give another result than one Cast are illegal.

    Attributes:
        types: Of the model that it is called with, if they are known; for one call.
        shapes: Of the same, or of what it was before Casts were added, likewise.
        findings: One per Cast replaced, or left although the target lacks it.
        routes: Those of the Casts that a chain replaced.
    """

    types: ElementTypes | None = None
    shapes: Shapes | None = None

    def __init__(
        self,
        target: Target,
        *,
        exact_bridges: bool = False,
        keep_illegal: bool = False,
        exact_only: bool = False,
    ) -> None:
        self._target = target
        self._exact_bridges = exact_bridges
        self._keep_illegal = keep_illegal
        self._exact_only = exact_only
        self.findings: list[Diagnostic] = []
        self.routes: list[Route] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace in every scope of `model`.

        Raises:
            RefusedError: Casts that no chain replaces; the text names every one.
        """
        self.findings, self.routes = [], []
        if self._target.casts is None:
            return ir.passes.PassResult(model, False)
        with collector_paused():
            modified = self._legalise(model)
        return ir.passes.PassResult(model, modified)

    def _legalise(self, model: ir.Model) -> bool:
        types = self.types or ElementTypes(model, in_functions=True)
        shapes = self.shapes or Shapes(model)
        self.types = self.shapes = None
        routes = Routes(self._target, types, shapes, exact_bridges=self._exact_bridges)
        found = [
            self._judged(routes.of(node))
            for node in model_nodes(model)
            if node.op_type in ("Cast", "CastLike") and node.domain in ONNX_DOMAINS
        ]
        illegal = [route for route in found if isinstance(route, IllegalCast)]
        if illegal and not self._keep_illegal:
            raise RefusedError(self._refusal(illegal))
        for each in illegal:
            self.findings.append(finding_about(each.node, Code.CAST_ILLEGAL, f"{each} stays"))
        return self._replace(model, [each for each in found if isinstance(each, Route)])

    def _judged(self, route: Route | IllegalCast) -> Route | IllegalCast:
        if isinstance(route, IllegalCast) or not self._exact_only:
            return route
        others = sorted(route.chain.labels.difference(_AS_ONE_CAST))
        if not others:
            return route
        path = route.chain.path
        return IllegalCast(route.node, path[0], path[-1], f"{route.chain}: {', '.join(others)}")

    def _refusal(self, illegal: Sequence[IllegalCast]) -> str:
        count = f"{len(illegal)} Cast{'s' if len(illegal) > 1 else ''}"
        return (
            f"{self._target.architecture} cannot do {count} of the model: "
            f"{'; '.join(map(str, illegal))}: export it without, allow --cast-bridges exact where "
            "that helps, or keep them with --illegal-casts keep"
        )

    def _replace(self, model: ir.Model, routes: Sequence[Route]) -> bool:
        changed = [route for route in routes if not route.is_native]
        if not changed:
            return False
        casts = Casts(model)
        for route in changed:
            self.routes.append(route)
            self.findings.append(finding_about(route.node, Code.CAST_LEGALISED, str(route)))
            source = route.source
            for format_ in route.chain.path[1:-1]:
                assert format_.dtype is not None
                source = casts.of(source, format_.dtype)
            route.node.replace_input_with(0, source)
        return True
