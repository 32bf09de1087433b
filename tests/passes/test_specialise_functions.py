import onnx_ir as ir
import pytest

from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import model_graphs, values
from onnxcast.passes import SpecialiseFunctionsPass


def test_without_functions_nobody_looks_at_types(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[4] x, bool c) => (float[4] y) {
        y = If (c) <then_branch = t () => (float[4] p) { p = Neg (x) },
                    else_branch = e () => (float[4] q) { q = Abs (x) }> }"""
    monkeypatch.setattr("onnxcast.passes.specialise_functions.ElementTypes", None)
    assert not SpecialiseFunctionsPass()(ir.from_onnx_text(text)).modified


def test_the_types_that_it_leaves_are_those_of_the_model() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        agraph (float[4] x, float16[4] h) => (float[4] y, float16[4] z, float16[4] g) {
            y = local.F (x) g = local.G (h) z = local.F (h)
        }
        <domain: "local", opset_import: ["" : 21, "local" : 1]> F (a) => (b) { b = local.G (a) }
        <domain: "local", opset_import: ["" : 21]> G (c) => (d) { e = Neg (c) d = Abs (e) }"""
    for wanted in (text, text.replace("float16[4]", "float[4]")):
        model = ir.from_onnx_text(wanted)
        specialise = SpecialiseFunctionsPass()
        assert specialise(model).modified is (wanted is text)
        assert specialise(model).modified is False
        found, types = specialise.types, ElementTypes(model, in_functions=True)
        assert found is not None
        inside = [value for graph in model_graphs(model) for value in values(graph)]
        assert all(types.of(value) is not None for value in inside)
        assert [found.of(value) for value in inside] == [types.of(value) for value in inside]


def test_a_call_that_gets_another_functions_copy_leaves_no_types_of_before() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        agraph (float[4] x, float16[4] h) => (float[4] y, float16[4] g, float16[4] z) {
            y = local.G (x) g = local.G (h) z = local.F (h)
        }
        <domain: "local", opset_import: ["" : 21, "local" : 1]> F (a) => (b) { b = local.G (a) }
        <domain: "local", opset_import: ["" : 21]> G (c) => (d) { e = Neg (c) d = Abs (e) }"""
    model = ir.from_onnx_text(text)
    specialise = SpecialiseFunctionsPass()
    assert specialise(model).modified
    types = specialise.types or ElementTypes(model, in_functions=True)
    fresh = ElementTypes(model, in_functions=True)
    inside = [value for graph in model_graphs(model) for value in values(graph)]
    assert [types.of(value) for value in inside] == [fresh.of(value) for value in inside]
    assert all(fresh.of(value) is not None for value in inside)
