"""Function bodies are asked whether they take a type that their op's schema promises."""

from typing import Any

import onnx_ir as ir
import pytest

from onnxcast.graph import function_ops
from onnxcast.graph.function_ops import FunctionBodies
from onnxcast.graph.schemas import Schemas
from onnxcast.graph.types import ElementTypes

CASES = [
    # Held together by float32 constants in the body.
    ("MeanVarianceNormalization (x)", 13, False),
    # Bodies that cast their constants like the operand.
    ("Elu (x)", 22, True),
    ("Selu (x)", 22, True),
    ("HardSwish (x)", 22, True),
    ("Gelu (x)", 20, True),
    ("LayerNormalization (x, s)", 17, True),
    ("Softmax (x)", 13, True),
    ("Clip (x, l, l)", 13, True),
    # No function body at all.
    ("Tanh (x)", 13, True),
]


def accepts(text: str, version: int, dtype: ir.DataType) -> tuple[bool, bool]:
    """Whether the body takes float32, and `dtype`."""
    model = ir.from_onnx_text(
        f"""<ir_version: 8, opset_import: ["": {version}]>
        g (float[2,2,2,2] x, float[2] s, float l) => (float[2,2,2,2] y) {{ y = {text} }}"""
    )
    [node] = model.graph
    types, bodies = ElementTypes(model), FunctionBodies()
    signature = Schemas(model).signature(node)
    assert signature is not None
    operands = [None if value is None else types.of(value) for value in node.inputs]
    narrow = [None if type_ is None else ir.TensorType(dtype) for type_ in operands]
    return (
        bodies.accept(node, signature, version, operands),
        bodies.accept(node, signature, version, narrow),
    )


@pytest.mark.parametrize(("text", "version", "takes"), CASES)
def test_a_body_takes_or_refuses_float16(text: str, version: int, takes: bool) -> None:
    assert accepts(text, version, ir.DataType.FLOAT16) == (True, takes)


def test_a_check_is_made_once_per_op_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["": 20]>
        g (float[2] x) => (float[2] y) {
            a = Gelu (x) b = Gelu (a) y = Gelu <approximate = "tanh"> (b)
        }"""
    )
    types, bodies = ElementTypes(model), FunctionBodies()
    checked, calls = function_ops._type_checks, []

    def counted(*arguments: Any) -> bool:
        calls.append(arguments)
        return checked(*arguments)

    monkeypatch.setattr(function_ops, "_type_checks", counted)
    for node in model.graph:
        signature = types.schemas.signature(node)
        assert signature is not None
        operands = [None if value is None else types.of(value) for value in node.inputs]
        assert bodies.accept(node, signature, 20, operands)
    assert len(calls) == 2
