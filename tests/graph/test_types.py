"""Element types come from schemas, and agree with onnx's own inference on all its test models."""

import functools
import warnings

import onnx
import onnx.helper
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.graph.types import ElementTypes, learn_type
from onnxcast.graph.walk import main_graphs, model_graphs, values

ML = '<ir_version: 10, opset_import: ["": 21, "local": 1, "ai.onnx.ml": 3]>'
FLOAT16 = ir.DataType.FLOAT16
FLOAT = ir.DataType.FLOAT


def types_of(text: str, header: str = ML) -> dict[str, str]:
    """Type of every value of the main graph and its subgraphs, by name."""
    return types_in(ir.from_proto(onnx.parser.parse_model(header + text)))


def types_in(model: ir.Model) -> dict[str, str]:
    types = ElementTypes(model)
    values = [
        value
        for graph in main_graphs(model)
        for value in (*graph.inputs, *graph.initializers.values(), *graph_results(graph))
    ]
    return {value.name or "": spelled(types.of(value)) for value in values}


def graph_results(graph: ir.Graph) -> list[ir.Value]:
    return [output for node in graph for output in node.outputs]


def spelled(type_: ir.TypeProtocol | None) -> str:
    if isinstance(type_, ir.SequenceType):
        return f"seq({spelled(type_.elem_type)})"
    if isinstance(type_, ir.OptionalType):
        return f"optional({spelled(type_.elem_type)})"
    if isinstance(type_, ir.SparseTensorType):
        return f"sparse({type_.dtype.name.lower()})"
    return "unknown" if type_ is None else type_.dtype.name.lower()


@functools.cache
def onnx_cases() -> list[onnx.ModelProto]:
    with warnings.catch_warnings():
        # The generators of the expected results overflow and divide by zero on purpose.
        warnings.filterwarnings(
            "ignore", category=RuntimeWarning, module=r"onnx\.backend\.test\.case\.node\."
        )
        from onnx.backend.test.case.node import collect_testcases

        return [case.model for case in collect_testcases(None) if case.model is not None]


def test_every_model_of_onnxs_own_tests_is_typed_as_onnx_types_it() -> None:
    compared, wrong = 0, []
    for proto in onnx_cases():
        inferred = onnx.shape_inference.infer_shapes(proto)
        wanted = {
            info.name: spelled(ir.serde.deserialize_type_proto_for_type(info.type))
            for info in (*inferred.graph.value_info, *inferred.graph.output)
        }
        model = ir.from_proto(proto)
        results = [value for value in graph_results(model.graph) if value.name in wanted]
        for value in results:
            value.type = None  # only the schemas may tell
        types = ElementTypes(model)
        for value in results:
            compared += 1
            found = spelled(types.of(value))
            if found != wanted[value.name or ""]:
                wrong.append((proto.graph.name, value.name, found, wanted[value.name or ""]))
    assert not wrong
    assert compared > 10_000


@pytest.mark.parametrize(
    ("node", "result"),
    [
        ("RandomNormal <shape = [2]> ()", "float"),
        ("RandomNormal <shape = [2], dtype = 10> ()", "float16"),
        ("RandomNormalLike (x)", "float16"),
        ("RandomNormalLike <dtype = 11> (x)", "double"),
        ("RandomUniform <shape = [2], dtype = 11> ()", "double"),
        ("ConstantOfShape (n)", "float"),
        ("ConstantOfShape <value = float16[1] {1}> (n)", "float16"),
        ("ConstantOfShape <value = int32[1] {1}> (n)", "int32"),
        ("EyeLike (m)", "int32"),
        ("EyeLike <dtype = 10> (m)", "float16"),
        ("Range (h, h, h)", "float16"),
        ("SequenceEmpty ()", "seq(float)"),
        ("SequenceEmpty <dtype = 10> ()", "seq(float16)"),
        ("SequenceConstruct (x, x)", "seq(float16)"),
        ("SplitToSequence (x)", "seq(float16)"),
        ("Bernoulli (x)", "float16"),
        ("Bernoulli <dtype = 1> (x)", "float"),
        ("Multinomial (m2)", "int32"),
        ("Multinomial <dtype = 7> (m2)", "int64"),
        ("Optional (x)", "optional(float16)"),
        ("Constant <value_float = 1.0> ()", "float"),
        ("Constant <value_ints = [1]> ()", "int64"),
        ('Constant <value_strings = ["a"]> ()', "string"),
        ("Constant <value = float16[1] {1}> ()", "float16"),
        ("Cast <to = 16> (x)", "bfloat16"),
        ("CastLike (x, m)", "int32"),
        ("Shape (x)", "int64"),
        ("DequantizeLinear (q, h)", "float16"),
        ("QuantizeLinear (x, h, q0)", "int8"),
        ("Equal (x, x)", "bool"),
        ("Where (b, x, x)", "float16"),
        ("BlackmanWindow (k)", "float"),
        ("BlackmanWindow <output_datatype = 10> (k)", "float16"),
    ],
)
def test_an_op_typed_by_attributes_or_one_operand(node: str, result: str) -> None:
    found = types_of(
        f"""g (float16[2] x, int64[1] n, int32[2,2] m, float[1,2] m2, float16 h, int8[2] q,
               bool[2] b, int64 k) => (float y) <int8 q0 = {{0}}> {{ y = {node} }}"""
    )
    assert found["y"] == result


def test_a_layer_normalisation_gives_its_statistics_in_the_stash_type() -> None:
    text = """g (float16[2,2] x, float16[2] s) => (float16[2,2] y, float m, float i) {
        y, m, i = LayerNormalization <stash_type = 1> (x, s)
    }"""
    found = types_of(text)
    assert (found["y"], found["m"], found["i"]) == ("float16", "float", "float")


def test_a_wrong_declared_type_is_never_believed() -> None:
    text = """g (float16[2] x) => (float16[2] y) <float[2] h> { h = Relu (x) y = Relu (h) }"""
    found = types_of(text)
    assert (found["h"], found["y"]) == ("float16", "float16")


def test_an_initializers_own_type_wins_over_the_declared_one() -> None:
    proto = onnx.parser.parse_model(ML + "g (float[1] x) => (float[1] y) { y = Mul (x, w) }")
    proto.graph.initializer.add(name="w", dims=[1], data_type=onnx.TensorProto.FLOAT).float_data[
        :
    ] = [1.0]
    proto.graph.value_info.append(
        onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT16, [1])
    )
    assert types_in(ir.from_proto(proto))["w"] == "float"


def test_a_declared_type_is_used_where_no_schema_tells() -> None:
    text = """g (float16[2] x) => (float16[2] y) <float16[2] h, double[2] d> {
        h, d, e = local.Unknown (x)
        y = Relu (h)
        f = Relu (e)
    }"""
    found = types_of(text)
    assert {name: found[name] for name in "hdeyf"} == {
        "h": "float16",
        "d": "double",
        "e": "unknown",
        "y": "float16",
        "f": "unknown",
    }


def test_an_unknown_operand_is_typed_by_its_partner() -> None:
    text = """g (float16[2] x) => (float16[2] y) { e = local.Unknown (x) y = Add (e, x) }"""
    assert types_of(text)["y"] == "float16"


def test_bodies_of_an_op_without_a_schema_keep_their_declared_types() -> None:
    text = """g (int32[2] ids) => (int32[2] y) {
        y = local.Search <decoder = body (float16[2] state) => (float16[2] next) {
            next = Relu (state)
        }> (ids)
    }"""
    found = types_of(text)
    assert (found["state"], found["next"]) == ("float16", "float16")
    assert found["y"] == "int32"


@pytest.mark.parametrize(
    "opsets",
    ['"": 21, "local": 1', '"local": 1, "": 21', '"ai.onnx": 21', '"local": 1, "ai.onnx": 21'],
)
def test_opsets_are_found_in_any_order_and_under_either_name(opsets: str) -> None:
    header = f"<ir_version: 10, opset_import: [{opsets}]>"
    text = "g (float16[2] x) => (float16[2] y) { h = Relu (x) y = ai.onnx.Cast <to = 1> (h) }"
    found = types_of(text, header)
    assert (found["h"], found["y"]) == ("float16", "float")


def test_branches_see_captured_values_and_siblings_may_shadow_one_another() -> None:
    text = """g (bool c, float16[2] x, double[2] z) => (float16[2] y) {
        y, w = If (c) <
            then_branch = then () => (float16[2] t, double[2] t2) {
                same = Relu (x) t = Neg (same) t2 = Identity (z)
            },
            else_branch = other () => (float16[2] e, double[2] e2) {
                same = Cast <to = 11> (x) e = Identity (x) e2 = Neg (same)
            }
        >
    }"""
    model = ir.from_proto(onnx.parser.parse_model(ML + text))
    types = ElementTypes(model)
    found = [
        (value.name, spelled(types.of(value)))
        for graph in main_graphs(model)
        for value in graph_results(graph)
    ]
    assert ("same", "float16") in found
    assert ("same", "double") in found
    assert dict(found) | {"same": ""} == {
        "y": "float16",
        "w": "double",
        "same": "",
        "t": "float16",
        "t2": "double",
        "e": "float16",
        "e2": "double",
    }


@pytest.mark.parametrize("heads", ["trip, go", ", go", "trip, ", ", "])
def test_a_loop_types_its_body_also_without_trip_count_or_condition(heads: str) -> None:
    text = f"""g (int64 trip, bool go, float16[2] x) => (float16[2] y, double[2] s) {{
        y, s = Loop <body = body (i, c, a) => (bool c2, float16[2] b, double[2] scanned) {{
            c2 = Identity (c)
            j = Neg (i)
            b = Neg (a)
            scanned = Cast <to = 11> (x)
        }}> ({heads}, x)
    }}"""
    found = types_of(text)
    assert (found["i"], found["j"], found["c"]) == ("int64", "int64", "bool")
    assert (found["a"], found["b"]) == ("float16", "float16")
    assert (found["y"], found["s"]) == ("float16", "double")


def test_a_loop_without_any_operand_is_typed() -> None:
    text = """g (float16[2] x) => (float16[2] s) {
        s = Loop <body = body (i, c) => (bool c2, float16[2] t) {
            c2 = Identity (c) j = Neg (i) t = Neg (x)
        }> ()
    }"""
    found = types_of(text)
    assert (found["j"], found["c2"], found["s"]) == ("int64", "bool", "float16")


@pytest.mark.parametrize(("version", "operands"), [(8, ", x, z"), (9, "x, z"), (11, "x, z")])
def test_a_scan_types_its_body_at_every_version(version: int, operands: str) -> None:
    header = f'<ir_version: 8, opset_import: ["": {version}]>'
    text = f"""g (float16[1,2] x, double[1,3,2] z) => (float16[1,2] y, double[1,3,2] s) {{
        y, s = Scan <num_scan_inputs = 1, body = body (a, e) => (float16[2] b, double[2] f) {{
            b = Neg (a) f = Neg (e)
        }}> ({operands})
    }}"""
    found = types_of(text, header)
    assert {name: found[name] for name in "aebfys"} == {
        "a": "float16",
        "b": "float16",
        "y": "float16",
        "e": "double",
        "f": "double",
        "s": "double",
    }


def test_a_sequence_map_hands_elements_in_and_sequences_out() -> None:
    text = """g (seq(float16[2]) s, double[2] z) => (seq(float16[2]) y, seq(double[2]) w) {
        y, w = SequenceMap <body = body (a, b) => (float16[2] c, double[2] d) {
            c = Neg (a) d = Neg (b)
        }> (s, z)
        first = SequenceAt (y, k)
        k = Constant <value_int = 0> ()
    }"""
    found = types_of(text)
    assert (found["c"], found["d"]) == ("float16", "double")
    assert (found["y"], found["w"]) == ("seq(float16)", "seq(double)")


def test_sequences_and_optionals_are_followed_through_their_ops() -> None:
    text = """g (float16[2] x, optional(float16[2]) o, int64 k) => (float16[2] y) {
        s = SequenceConstruct (x)
        s2 = SequenceInsert (s, x)
        a = SequenceAt (s2, k)
        cat = ConcatFromSequence <axis = 0> (s2)
        e = OptionalGetElement (o)
        so = Optional (s)
        back = OptionalGetElement (so)
        has = OptionalHasElement (o)
        y = Relu (a)
    }"""
    found = types_of(text)
    wanted = {
        "s": "seq(float16)",
        "s2": "seq(float16)",
        "a": "float16",
        "cat": "float16",
        "e": "float16",
        "so": "optional(seq(float16))",
        "back": "seq(float16)",
        "has": "bool",
        "y": "float16",
    }
    assert {name: found[name] for name in wanted} == wanted


FUNCTION = """
<opset_import: ["": 18], domain: "local">
Convert <to> (x) => (y) {
    y = Cast <to: int = @to> (x)
}
"""


def test_a_function_is_typed_per_call_with_the_calls_attributes() -> None:
    text = """g (float[2] x, double[2] z) => (float16[2] a, bfloat16[2] b, float16[2] c) {
        a = local.Convert <to = 10> (x)
        b = local.Convert <to = 16> (x)
        c = local.Convert <to = 10> (z)
    }"""
    found = types_of(text + FUNCTION)
    assert (found["a"], found["b"], found["c"]) == ("float16", "bfloat16", "float16")


def test_a_functions_default_attributes_and_nested_calls_count() -> None:
    text = """g (float[2] x) => (float16[2] a, double[2] b) {
        a = local.Outer (x)
        b = local.Outer <kind = 11> (x)
    }
    <opset_import: ["": 18, "local": 1], domain: "local">
    Outer <kind: int = 10> (x) => (y) {
        h = local.Convert <to: int = @kind> (x)
        y = Identity (h)
    }"""
    found = types_of(text + FUNCTION)
    assert (found["a"], found["b"]) == ("float16", "double")


def test_types_outside_functions_are_those_found_without_looking_inside() -> None:
    text = """g (float[2] x) => (float16[2] y) { h = local.Convert <to = 10> (x) y = Neg (h) }"""
    model = ir.from_proto(onnx.parser.parse_model(ML + text + FUNCTION))
    inside, alone = ElementTypes(model, in_functions=True), ElementTypes(model)
    outside, found = inside.outside(), []
    for graph in model_graphs(model):
        found += [(inside.of(value), outside.of(value)) for value in values(graph)]
        assert all(outside.of(value) == alone.of(value) for value in values(graph))
    assert any(known is not None and left is None for known, left in found)
    assert any(known is not None and left is not None for known, left in found)


def test_a_function_hides_the_op_of_the_same_name_and_uses_its_own_opset() -> None:
    text = """g (float[2] x) => (float16[2] y) { y = Relu (x) }
    <opset_import: ["": 18], domain: "">
    Relu (x) => (y) { y = Cast <to = 10> (x) }"""
    assert types_of(text)["y"] == "float16"


def test_values_are_asked_by_element_type() -> None:
    model = ir.from_onnx_text(ML + "g (float[2] x) => (seq(float[2]) y) { y = SplitToSequence(x) }")
    types = ElementTypes(model)
    x, y = model.graph.inputs[0], model.graph.outputs[0]
    assert types.dtype(x) == FLOAT
    assert types.dtype(y) is None
    assert types.dtype(None) is None


def test_a_casts_result_is_known_whatever_is_cast() -> None:
    text = """g (float[2] x) => (float[2] y) {
        u = local.Unknown (x) h = Cast <to = 10> (u) bad = Cast <to = 99> (x) y = Cast <to = 1> (h)
    }"""
    types = types_of(text)
    assert (types["u"], types["h"], types["bad"]) == ("unknown", "float16", "unknown")


def test_a_learned_type_is_known_to_clones_and_never_written() -> None:
    model = ir.from_onnx_text(ML + "g (float[2] x) => (float[2] y) { u = local.U (x) y = Neg (u) }")
    before = ir.to_proto(model)
    learn_type(model.graph[0].outputs[0], ir.TensorType(FLOAT16))
    assert types_in(model)["u"] == types_in(model.clone())["u"] == "float16"
    assert ir.to_proto(model) == before


def test_a_declared_type_goes_before_a_learned_one() -> None:
    model = ir.from_onnx_text(
        ML + "g (float[2] x) => (float[2] y) <double[2] u> { u = local.U (x) y = Relu (x) }"
    )
    learn_type(model.graph[0].outputs[0], ir.TensorType(FLOAT16))
    assert types_in(model)["u"] == "double"
