"""Functions and calls that onnx's checker lets pass and nothing can run."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.files import from_proto
from onnxcast.graph.check import check_functions, fault
from tests.files.test_maps import classifier


def load(call: str, function: str, version: int = 8) -> ir.Model:
    model = ir.from_onnx_text(
        f"""<ir_version: {version}, opset_import: ["": 17, "local": 1]>
        g (float[2] x, bool c) => (float[2] y) {{ {call} }}
        <domain: "local", opset_import: ["": 17]> {function}"""
    )
    onnx.checker.check_model(ir.to_proto(model))
    return model


BRANCH = """F (a, c) => (b) {{
    q = Neg (a)
    b = If (c) <
        then_branch = then () => (float[2] {0}) {{ {1} }},
        else_branch = other () => (float[2] e) {{ e = Relu (q) }}
    >
}}"""
WRONG = {
    "operands": (
        load("y = local.F (x, x)", "F (a) => (b) { b = Relu (a) }"),
        "call local.F(-> y) has 2 operands and 1 results, function local::F has 1 and 1",
    ),
    "results": (
        load("y, z = local.F (x)", "F (a) => (b) { b = Relu (a) }"),
        "call local.F(-> y) has 1 operands and 2 results, function local::F has 1 and 1",
    ),
    "attributes": (
        load(
            "y = local.F <k = 2.0> (x)",
            "F <k> (a) => (b) { c = Constant <value: tensor = @k> () b = Mul (a, c) }",
        ),
        "call local.F(-> y) has attribute 'k' of type FLOAT, the function reads it as TENSOR",
    ),
    "defaults": (
        load(
            "y = local.F (x)",
            "F <k: int = 2> (a) => (b) { b = LeakyRelu <alpha: float = @k> (a) }",
        ),
        "function local::F has attribute 'k' of type INT, the function reads it as FLOAT",
    ),
    "references": (
        load(
            "y = local.F (x)",
            "F <k> (a) => (b) { c = LeakyRelu <alpha: float = @k> (a) "
            "b = Softmax <axis: int = @k> (c) }",
        ),
        "function local::F has attribute 'k' of type INT, the function reads it as FLOAT",
    ),
    # Below IR version 8 functions are not checked.
    "an outer value as a branch's": (
        load("y = local.F (x, c)", BRANCH.format("a", ""), version=7),
        "graph 'then' in a function gives 'a', which is not made in it",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_an_input_error(case: str) -> None:
    model, said = WRONG[case]
    with pytest.raises(InputError) as caught:
        check_functions(model)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        load("y = local.F (x, c)", BRANCH.format("t", "t = Identity (q)")),
        load(
            "y = local.F (x, c)", BRANCH.format("k", "k = Constant <value_floats = [1.0, 2.0]> ()")
        ),
        load("y = local.F (x)", "F (a, gone) => (b) { b = Clip (a, gone) }"),
        load("y = local.F (x)", "F (a) => (a) { }"),
        load(
            "y = local.F <k = 2.0> (x)",
            "F <k: float = 1.0> (a) => (b) { b = LeakyRelu <alpha: float = @k> (a) }",
        ),
    ],
)
def test_what_fits_is_accepted(model: ir.Model) -> None:
    check_functions(model)


def test_functions_that_call_one_another_in_a_circle_are_an_input_error() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[2] x) => (float[2] y) { y = local.F (x) }
        <domain: "local", opset_import: ["local": 1]> F (a) => (b) { b = local.G (a) }
        <domain: "local", opset_import: ["local": 1]> G (a) => (b) { b = local.F (a) }"""
    )
    with pytest.raises(InputError, match=r"circle: local::[FG] -> local::[FG] -> local::[FG];"):
        check_functions(model)


def nested(depth: int, body: str, last: str) -> ir.Model:
    """Functions whose `body` calls the next one, named by its place."""
    functions = [
        f'<domain: "local", opset_import: ["": 17, "local": 1]> F{i} (a) => (b) '
        f"{{ {last if i == depth else body.format(i + 1)} }}"
        for i in range(1, depth + 1)
    ]
    return ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["": 17, "local": 1]>'
        "g (float[2] x) => (float[2] y) { y = local.F1 (x) }" + "".join(functions)
    )


def test_functions_call_one_another_only_so_deep() -> None:
    check_functions(nested(100, "b = local.F{} (a)", "b = Relu (a)"))
    with pytest.raises(InputError, match="more than 100 deep"):
        check_functions(nested(101, "b = local.F{} (a)", "b = Relu (a)"))


def test_functions_unfold_only_so_far() -> None:
    twice = "c = local.F{0} (a) b = local.F{0} (c)"
    check_functions(nested(20, twice, "b = Relu (a)"))
    with pytest.raises(InputError, match="more than 1000000 nodes"):
        check_functions(nested(20, twice, "c = Relu (a) b = Relu (c)"))


@pytest.mark.parametrize("full", [True, False])
def test_the_checker_leaves_the_initializers_in_their_order(full: bool) -> None:
    names = ["large", "small", "also"]
    sizes = [(64, 64), (2,), (64, 64)]
    weights = [
        ir.Value(name=name, const_value=ir.tensor(np.ones(size, np.float32), name=name))
        for name, size in zip(names, sizes, strict=True)
    ]
    node = ir.node("MatMul", [weights[0], weights[2]])
    y = node.outputs[0]
    y.name, y.type, y.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape([64, 64])
    graph = ir.Graph([], [y], nodes=[node], initializers=weights, opset_imports={"": 21}, name="g")
    model = ir.Model(graph, ir_version=10)
    assert fault(model, full=full) == ""
    assert list(model.graph.initializers) == names
    assert all(value.is_initializer() and value.shape is None for value in weights)
    y.shape = ir.Shape([3])
    assert ("ShapeInferenceError" in fault(model, full=full)) is full
    assert list(model.graph.initializers) == names


def test_a_map_between_two_ops_is_valid() -> None:
    proto = classifier()
    (zip_map,) = (node for node in proto.graph.node if node.op_type == "ZipMap")
    zip_map.output[0] = "m"
    proto.graph.node.append(onnx.helper.make_node("Identity", ["m"], ["y"]))
    between = proto.graph.value_info.add()
    between.CopyFrom(proto.graph.output[0])
    between.name = "m"
    onnx.checker.check_model(proto)
    assert fault(from_proto(proto), full=False) == ""
