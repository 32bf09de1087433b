import onnx_ir as ir
import pytest

from onnxcast.passes import SpecialiseFunctionsPass


def test_without_functions_nobody_looks_at_types(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[4] x, bool c) => (float[4] y) {
        y = If (c) <then_branch = t () => (float[4] p) { p = Neg (x) },
                    else_branch = e () => (float[4] q) { q = Abs (x) }> }"""
    monkeypatch.setattr("onnxcast.passes.specialise_functions.ElementTypes", None)
    assert not SpecialiseFunctionsPass()(ir.from_onnx_text(text)).modified
