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


def types_of(model: ir.Model, types: ElementTypes) -> list[ir.TypeProtocol | None]:
    return [types.of(value) for graph in model_graphs(model) for value in values(graph)]


@pytest.mark.parametrize("second", ["float[4]", "float16[4]"])
@pytest.mark.parametrize("first", ["F", "G"])  # with G the copy is there before F calls it
def test_the_types_that_it_leaves_are_those_of_the_model(first: str, second: str) -> None:
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        agraph (float[4] x, {second} h) => (float[4] y, {second} z, {second} g) {{
            y = local.{first} (x) g = local.G (h) z = local.F (h)
        }}
        <domain: "local", opset_import: ["" : 21, "local" : 1]> F (a) => (b) {{ b = local.G (a) }}
        <domain: "local", opset_import: ["" : 21]> G (c) => (d) {{ e = Neg (c) d = Abs (e) }}"""
    )
    specialise = SpecialiseFunctionsPass()
    for modified in (second == "float16[4]", False):
        assert specialise(model).modified is modified
        types = types_of(model, ElementTypes(model, in_functions=True))
        assert None not in types
        assert specialise.types is not None or modified
        assert specialise.types is None or types_of(model, specialise.types) == types


@pytest.mark.parametrize(("op", "opset"), [("Relu (a)", 21), ("Cast <to = 1> (a)", 20)])
def test_functions_import_the_models_opset_if_their_ops_are_the_same(op: str, opset: int) -> None:
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        agraph (float[4] x) => (float[4] y) {{ y = local.F (x) }}
        <domain: "local", opset_import: ["" : 20]> F (a) => (b) {{ b = {op} }}"""
    )
    assert SpecialiseFunctionsPass()(model).modified is (opset == 21)
    (function,) = model.functions.values()
    assert function.opset_imports == {"": opset}
    assert not SpecialiseFunctionsPass()(model).modified
