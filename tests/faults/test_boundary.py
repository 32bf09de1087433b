"""Graph inputs and outputs: order, passthrough, shared, overridable, other types; names."""

import pathlib
import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxcast
from tests.faults.conversions import both_formats, convert, floats, parse, reference


@both_formats
def test_an_input_read_first_and_last_is_cast_once_before_all_readers(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,4] y, float[3,4] z) <float[4,6] W, float[6,4] V> {
            h = MatMul (x, W) r = Relu (h) m = MatMul (r, V) y = Add (m, x) z = Mul (x, x)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul", "Add", "Mul")
    assert found.count("Cast") == 3


@both_formats
def test_nodes_without_names_are_told_apart(dtype: str) -> None:
    found = convert(
        parse(
            """g (float[1,1,2,3] x) => (float[1,1,8,12] y)
            <float[4] s2 = {1,1,2,2}, float[4] s3 = {1,1,2,2}, float k = {1.5}> {
                r = Relu (x) u = Resize <mode = "nearest"> (r, s2) v = Mul (u, k)
                w = Resize <mode = "nearest"> (v, s3) y = Add (w, k)
            }""",
            opset=10,
            ir_version=5,
        ),
        dtype,
        by="twin",
    )
    for node in found.named("Resize"):
        assert node.reads[1] == "FLOAT"
    assert found.is_narrow("Relu", "Mul", "Add")


@both_formats
def test_new_names_avoid_every_name_of_the_source_in_every_scope(dtype: str) -> None:
    low = dtype
    found = convert(
        f"""g (float[3,4] x, bool c) => (float[3,4] y, float[3,4] x_{low})
        <float[4,4] W, int64 axis = {{1}}> {{
            [x_{low}_cast] h = MatMul (x, W) x_{low} = CumSum (x, axis)
            o = If (c) <
                then_branch = t () => (float[3,4] p) {{
                    h_float32 = Relu (h) y_inner = Neg (h_float32) p = MatMul (y_inner, W)
                }},
                else_branch = e () => (float[3,4] q) {{
                    W_{low} = Sigmoid (h) q = Mul (W_{low}, x)
                }}
            >
            y = Add (o, h)
        }}""",
        dtype,
        feeds={"c": np.array(True)},
        more=[{"c": np.array(False)}],
    )
    assert found.is_narrow("MatMul", "Add")


@both_formats
def test_an_input_that_is_an_output_passes_through(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x, float[2] z) => (float[3,4] x, float[2] z, float[3,5] y) <float[4,5] W> {
            y = MatMul (x, W)
        }""",
        dtype,
        feeds={"z": floats([1e-9, 1e9])},
        by="twin",
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_an_identity_from_input_to_output_rounds_nothing(dtype: str) -> None:
    convert(
        """g (float[2] x) => (float[2] y, float[2] z) { y = Identity (x) t = Identity (x)
        z = Identity (t) }""",
        dtype,
        feeds={"x": floats([0.1, 1e9])},
        tolerance=1e-30,
    )


@both_formats
def test_an_initializer_that_is_an_output_stays_exact(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,4] y, float[4] b, float[3] table)
        <float[4,4] W, float[4] b = {0.1, 0.2, 0.3, 0.333333},
         float[3] table = {123456.78, 1e-9, 0.1}> { h = MatMul (x, W) y = Add (h, b) }""",
        dtype,
        by="twin",
    )
    kept = {tensor.name: tensor for tensor in found.model.graph.initializer}
    for name in ("b", "table"):
        before = next(t for t in found.source.graph.initializer if t.name == name)
        assert kept[name].SerializeToString() == before.SerializeToString()
    assert found.is_narrow("MatMul", "Add")


@both_formats
def test_an_output_read_inside_keeps_its_name_and_its_readers_read_narrow(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,5] h, float[3,2] y, float[3,5] r, float[3,5] s)
        <float[4,5] W, float[5,2] V> {
            h = MatMul (x, W) r = Relu (h) y = MatMul (r, V) s = Add (h, r)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul", "Relu", "Add")
    assert found.count("Cast") == 5


@both_formats
def test_an_output_that_a_branch_reads_keeps_its_name(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x, bool c) => (float[3,4] h, float[3,4] o) <float[4,4] W> {
            h = MatMul (x, W)
            o = If (c) <then_branch = t () => (float[3,4] p) { p = Relu (h) },
                        else_branch = e () => (float[3,4] q) { q = Identity (h) }>
        }""",
        dtype,
        feeds={"c": np.array(True)},
        more=[{"c": np.array(False)}],
    )
    assert found.is_narrow("MatMul", "Relu")


@both_formats
def test_one_value_may_be_two_outputs(dtype: str) -> None:
    model = parse("g (float[3,4] x) => (float[3,4] y) <float[4,4] W> { y = MatMul (x, W) }")
    model.graph.output.append(model.graph.output[0])
    found = convert(model, dtype, by="nothing")
    assert found.is_narrow("MatMul")


@both_formats
def test_float64_inputs_and_outputs_keep_their_type(dtype: str) -> None:
    found = convert(
        """g (double[3,4] x) => (double[3,5] y, double[3,5] z) <float[4,5] W, double[5] k> {
            f = Cast <to = 1> (x) h = MatMul (f, W) d = Cast <to = 11> (h) y = Relu (d)
            z = Mul (d, k)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul")
    assert found.named("Mul")[0].gives == ["DOUBLE"]


@both_formats
def test_a_float64_model_is_left_alone(dtype: str) -> None:
    found = convert(
        "g (double[3,4] x) => (double[3,5] y) <double[4,5] W> { h = MatMul (x, W) y = Relu (h) }",
        dtype,
        tolerance=1e-15,
    )
    assert [node.op_type for node in found.model.graph.node] == ["MatMul", "Relu"]


@both_formats
def test_a_model_of_integers_is_left_alone(dtype: str) -> None:
    found = convert(
        "g (int64[3] x) => (int64[3] y, bool[3] b) { y = Add (x, x) b = Greater (y, x) }", dtype
    )
    assert [node.op_type for node in found.model.graph.node] == ["Add", "Greater"]


def overridable(ir_version: int) -> onnx.ModelProto:
    model = parse(
        "g (float[3,4] x) => (float[3,5] y) <float[4,5] W, float[5] b>"
        " { h = MatMul (x, W) y = Add (h, b) }",
        opset=8,
        ir_version=ir_version,
    )
    model.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, 1, list(tensor.dims))
        for tensor in model.graph.initializer
    )
    return model


@pytest.mark.parametrize("ir_version", [3, 4])
@both_formats
def test_initializers_that_are_inputs_may_still_be_fed(dtype: str, ir_version: int) -> None:
    model = overridable(ir_version)
    found = convert(
        model,
        dtype,
        more=[{"W": np.full((4, 5), 2.5, np.float32)}] if ir_version > 3 else (),
        by="twin",
    )
    assert [tensor.data_type for tensor in found.model.graph.initializer] == [1, 1]
    assert found.is_narrow("MatMul", "Add")


def declared(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


@both_formats
def test_every_declared_inner_type_is_true_afterwards(dtype: str) -> None:
    model = declared(
        parse(
            """g (float[B,4] x, bool c) => (float[5,2] y, float[B,5] o)
            <float[4,5] W, float[3,2] V> {
                kd = Constant <value = double {0.3}> () k = Cast <to = 1> (kd)
                h = MatMul (x, W) hk = Mul (h, k)
                t = Transpose <perm = [1,0]> (hk) y = MatMul (t, V)
                o = If (c) <then_branch = t1 () => (float[B,5] p) { a = Relu (h) p = Abs (a) },
                            else_branch = e1 () => (float[B,5] q) { a2 = Neg (h) q = Abs (a2) }>
            }"""
        )
    )
    assert {"h", "hk", "t", "k"} <= {info.name for info in model.graph.value_info}
    found = convert(model, dtype, feeds={"c": np.array(True), "x": np.ones((3, 4), np.float32)})
    onnx.shape_inference.infer_shapes(
        found.model, check_type=True, strict_mode=True, data_prop=True
    )
    infos = {info.name: info.type.tensor_type for info in found.model.graph.value_info}
    assert infos["hk"].shape.dim[0].dim_param == "B"
    assert infos["hk"].elem_type != onnx.TensorProto.FLOAT


@pytest.mark.parametrize("scope", ["all", "none"])
@both_formats
def test_a_declared_type_that_another_tool_left_false_is_put_right(dtype: str, scope: str) -> None:
    model = parse(
        "g (float[3,4] x) => (float[3,4] y) <float[4,4] W, float[4] b> {"
        " h = MatMul (x, W) [keep] y = Add (h, b) }"
    )
    model.graph.value_info.append(helper.make_tensor_value_info("h", 11, [3, 4]))
    options = {"scope": "none"} if scope == "none" else {"dtype": dtype, "keep_ops": ["MatMul"]}
    result = onnxcast.optimize(model, verify=False, **options).to_proto()
    onnx.checker.check_model(result, full_check=True)


@both_formats
def test_an_inner_value_without_a_declared_shape_is_no_hindrance(dtype: str) -> None:
    found = convert(
        """g (float[A,B] x, int64[2] s) => (float[C,D] y) <float[4,4] W> {
            h = MatMul (x, W) r = Reshape (h, s) y = Relu (r)
        }""",
        dtype,
        feeds={"x": np.ones((3, 4), np.float32), "s": np.array([2, 6])},
    )
    assert found.is_narrow("MatMul", "Relu")


def test_external_data_is_found_narrowed_and_left_as_it_was(tmp_path: pathlib.Path) -> None:
    weights = np.random.default_rng(0).normal(0, 0.5, (64, 64)).astype(np.float32)
    model = parse("g (float[3,64] x) => (float[3,64] y) <float[64,64] W> { y = MatMul (x, W) }")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "W"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=0)
    before = (tmp_path / "model.data").read_bytes()
    result = onnxcast.optimize(path, fp32_cast="all-fp16", verify=False)
    output = tmp_path / "out" / "result.onnx"
    output.parent.mkdir()
    result.save(output)
    assert (tmp_path / "model.data").read_bytes() == before
    [tensor] = onnx.load(output).graph.initializer
    assert np.array_equal(numpy_helper.to_array(tensor), weights.astype(np.float16))


def test_external_weights_of_branches_are_narrowed_and_all_are_in_the_proto(
    tmp_path: pathlib.Path,
) -> None:
    model = parse(
        """g (float[3,4] x, bool c) => (float[3,4] o) <float[3,4] B, int64 axis = {0}> {
            o = If (c) <then_branch = t () => (float[3,4] p) <float[4,4] W> { p = MatMul (x, W) },
                        else_branch = e () => (float[3,4] q) { q = CumSum (B, axis) }>
        }"""
    )
    source = onnx.ModelProto()
    source.CopyFrom(model)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=0)
    result = onnxcast.optimize(path, fp32_cast="all-fp16", verify=False).to_proto()
    onnx.checker.check_model(result, full_check=True)
    feeds = {"x": np.ones((3, 4), np.float32)}
    for branch in (True, False):
        sample = {**feeds, "c": np.array(branch)}
        [wanted], [found] = reference(source, sample), reference(result, sample)
        assert np.allclose(found, wanted, atol=5e-3)


@pytest.mark.parametrize("other", ["last", "first"])
@both_formats
def test_the_onnx_domain_may_be_imported_after_others(dtype: str, other: str) -> None:
    model = parse(
        """g (float[1,3,8] a) => (float[1,3,4] y) <float[8] g, float[8,4] W> {
            n = Relu (a) b = Mul (n, g) y = MatMul (b, W)
        }""",
        domains='"com.microsoft" : 1, "ai.onnx.ml" : 3',
    )
    if other == "first":
        imports = list(model.opset_import)
        del model.opset_import[:]
        model.opset_import.extend([*imports[1:], imports[0]])
    found = convert(model, dtype)
    assert found.is_narrow("MatMul", "Relu")


@both_formats
def test_the_onnx_domain_may_go_by_its_long_name(dtype: str) -> None:
    model = parse("g (float[3,4] x) => (float[3,4] y) <float[4,4] W> { y = MatMul (x, W) }")
    model.opset_import[0].domain = "ai.onnx"
    found = convert(model, dtype, by="twin")
    assert found.is_narrow("MatMul")


@both_formats
def test_metadata_and_doc_strings_survive(dtype: str) -> None:
    model = parse("g (float[3,4] x) => (float[3,4] y) <float[4,4] W> { [m] y = MatMul (x, W) }")
    model.doc_string, model.graph.doc_string, model.graph.node[0].doc_string = "model", "g", "node"
    model.metadata_props.add(key="author", value="someone")
    found = convert(model, dtype)
    assert {"author": "someone"}.items() <= {
        prop.key: prop.value for prop in found.model.metadata_props
    }.items()
    assert (found.model.doc_string, found.model.graph.doc_string) == ("model", "g")
    assert found.named("m")[0].proto.doc_string == "node"


def layered(layers: int) -> onnx.ModelProto:
    weights = ", ".join(f"float[4,4] W{k}" for k in range(layers))
    body = " ".join(
        f"m{k} = MatMul (t{k}, W{k}) a{k} = Add (m{k}, m{k}) t{k + 1} = Tanh (a{k})"
        for k in range(layers)
    )
    return parse(
        f"""g (float[2,4] x) => (float[2,4] y) <{weights}> {{
            t0 = Relu (x) {body} y = Neg (t{layers})
        }}"""
    )


def seconds(layers: int, dtype: str) -> float:
    model = layered(layers)
    start = time.process_time()
    onnxcast.optimize(model, dtype=dtype, verify=False)
    return time.process_time() - start


@both_formats
def test_many_layers_take_two_casts_in_all(dtype: str) -> None:
    found = convert(layered(100), dtype, by="nothing")
    assert found.count("Cast") == 2
    assert found.is_narrow("MatMul", "Add", "Tanh")


@both_formats
def test_time_grows_with_the_nodes_and_not_with_their_square(dtype: str) -> None:
    """Eight times the nodes: linear is 8 times as long, quadratic 64."""
    assert seconds(800, dtype) < 24 * seconds(100, dtype)
