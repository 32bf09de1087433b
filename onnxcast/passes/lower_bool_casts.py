"""Replace Casts to and from bool that the target lacks by a comparison and a choice.

Before::

    b = Cast <to = 9> (x)          # x is int64
    y = Cast <to = 16> (b)         # opset 13, where Where takes no bfloat16

After::

    zero_int64 = Constant <value = int64 {0}> ()
    b_is_zero = Equal (x, zero_int64)
    b = Not (b_is_zero)
    zero_float32 = Constant <value = float {0}> ()
    one_float32 = Constant <value = float {1}> ()
    y_as_number = Where (b, one_float32, zero_float32)
    y = Cast <to = 16> (y_as_number)

Where the op lacks the type at the model's opset, a Cast to float32 stands before the comparison, or
one from float32 behind the choice. Bit-exact. What can be lowered in neither way stays. It comes
before the plan, so that a second run plans what the first did.
"""

import onnx_ir as ir

from onnxcast import formats
from onnxcast.diagnostics import Code, Diagnostic
from onnxcast.files import collector_paused
from onnxcast.graph.edit import Casts, cast_target, take_place
from onnxcast.graph.findings import finding_about
from onnxcast.graph.truth import Truths, can_choose, can_compare
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import label, model_nodes
from onnxcast.targets import Target

__all__ = ["LowerBoolCastsPass"]

_BOOL, _FLOAT = ir.DataType.BOOL, ir.DataType.FLOAT


class LowerBoolCastsPass(ir.passes.InPlacePass):
    """Leaves no Cast to or from bool that the target lacks and that can be lowered.

    Args:
        target: Tells the conversions; one without a table has them all.

    Attributes:
        types: Of the model that it is called with, if they are known; for one call.
        findings: One per Cast replaced by the last call.
    """

    types: ElementTypes | None = None

    def __init__(self, target: Target) -> None:
        self._target = target
        self.findings: list[Diagnostic] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace in every scope of `model`."""
        self.findings = []
        with collector_paused():
            types = self.types or ElementTypes(model, in_functions=True)
            self.types = None
            found = [
                (node, source)
                for node in model_nodes(model)
                if (source := self._source(node, types)) is not None
            ]
            casts = Casts(model) if found else None
            truths = None if casts is None else Truths(casts.names)
            for node, source in found:
                assert casts is not None
                assert truths is not None
                version = types.schemas.version(node)
                assert version is not None
                self._lower(node, source, version, casts, truths)
        return ir.passes.PassResult(model, bool(self.findings))

    def _source(self, node: ir.Node, types: ElementTypes) -> ir.DataType | None:
        """The source type of a Cast that is to be lowered; None for any other node."""
        to = cast_target(node)
        source = None if to is None else types.dtype(node.inputs[0])
        if to is None or source is None or source == to or _BOOL not in (source, to):
            return None
        if ir.DataType.STRING in (source, to):
            return None
        lacking = not self._target.is_native(formats.of(source), formats.of(to))
        return source if lacking else None

    def _lower(
        self, node: ir.Node, source: ir.DataType, version: int, casts: Casts, truths: Truths
    ) -> None:
        value, to = node.inputs[0], cast_target(node)
        assert value is not None
        assert to is not None
        if to == _BOOL:
            if not can_compare(source, version):
                held = formats.contains(formats.FLOAT32, formats.of(source))
                if not (held and can_compare(_FLOAT, version)):
                    return
                value, source = casts.of(value, _FLOAT), _FLOAT
            nodes = truths.compare_with_zero(node, value, source)
            self._note(node, "a comparison with 0")
            _take_place(node, nodes)
            return
        chosen = next((each for each in (to, _FLOAT) if can_choose(each, version)), None)
        if chosen is None:
            return
        choice = truths.choose_one_or_zero(node, chosen)
        self._note(node, "a choice of 1 or 0")
        if chosen == to:
            _take_place(node, [choice])
            return
        assert node.graph is not None
        node.graph.insert_before(node, choice)
        node.replace_input_with(0, choice.outputs[0])

    def _note(self, node: ir.Node, became: str) -> None:
        message = f"{label(node)} became {became}"
        self.findings.append(finding_about(node, Code.CAST_LOWERED, message))


def _take_place(old: ir.Node, nodes: list[ir.Node]) -> None:
    """Put `nodes` in place of a Cast, under its name if it has one."""
    name = old.name
    take_place(old, nodes)
    nodes[-1].name = name or nodes[-1].name
