"""A raised model computes the same bits and keeps all that is not about the opset."""

import pathlib

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from onnxcast.errors import InputError, RefusedError
from onnxcast.files import read_model
from onnxcast.graph import opsets
from onnxcast.graph.opsets import import_onnx, onnx_opset, opset_for_cast, raise_opset
from onnxcast.graph.walk import main_graphs

FLOAT16, BFLOAT16 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16
NEWEST = onnx.defs.onnx_opset_version()


def parsed(text: str, imports: str = '"": 11') -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(
        f"<ir_version: 8, opset_import: [{imports}]> {text}"
    )
    return model


def load(text: str, imports: str = '"": 11') -> ir.Model:
    return ir.from_proto(parsed(text, imports))


def run(proto: onnx.ModelProto) -> list[np.ndarray]:
    """All outputs for the same standard normal inputs, exactly as the graph stands."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    feeds = {
        value.name: generator.standard_normal(value.shape, np.float32)
        for value in session.get_inputs()
    }
    return [np.asarray(found) for found in session.run(None, feeds)]


@pytest.mark.parametrize(
    ("dtype", "current", "wanted"),
    [
        # Cast-1 names its target in a string; Cast-6 in an integer, with float16 among the types.
        *((FLOAT16, current, max(current, 6)) for current in (1, 5, 6, 9, 12, 13, 21)),
        # Cast-13 brought bfloat16.
        *((BFLOAT16, current, max(current, 13)) for current in (1, 6, 9, 12, 13, 19, 21)),
        # Cast-19 brought float8.
        (ir.DataType.FLOAT8E4M3FN, 13, 19),
        (ir.DataType.FLOAT8E4M3FN, 22, 22),
    ],
)
def test_the_least_opset_with_the_casts(dtype: ir.DataType, current: int, wanted: int) -> None:
    assert opset_for_cast(dtype, current) == wanted


def test_a_type_without_a_cast_is_refused_on_one_line() -> None:
    with pytest.raises(RefusedError, match=r"no opset .* Cast to tensor\(undefined\)") as caught:
        opset_for_cast(ir.DataType.UNDEFINED, 13)
    assert "\n" not in str(caught.value)


def test_an_opset_beyond_the_installed_onnx_is_told() -> None:
    with pytest.raises(RefusedError, match=r"opset 99, the installed onnx knows 1 to .*newer onnx"):
        opset_for_cast(ir.DataType.FLOAT16, 99)


@pytest.mark.parametrize(
    ("imports", "wanted"),
    [
        ('"": 11', 11),
        ('"ai.onnx": 12', 12),
        ('"ai.onnx.ml": 3, "": 9', 9),
        ('"ai.onnx.ml": 3', None),
    ],
)
def test_the_opset_is_that_of_the_onnx_domain(imports: str, wanted: int | None) -> None:
    assert onnx_opset(load("g () => () { }", imports)) == wanted


# Ops whose attributes became inputs, or that mean something else, from opset 11 to 13 or 18.
NODES = [
    ("float[a,b,c] y", "Squeeze <axes = [1]> (x)"),
    ("float[a,b,c] y", "Squeeze (x)"),
    ("float[a,b,c,d,e,f] y", "Unsqueeze <axes = [0, 2]> (x)"),
    ("float[a,b] y", "ReduceSum <axes = [0, 2], keepdims = 0> (x)"),
    ("float[a,b,c,d] y", "ReduceSum (x)"),
    ("float[a,b,c,d] y", "ReduceMean <axes = [0]> (x)"),
    ("float[a,b,c,d] y", "ReduceMax <axes = [3]> (x)"),
    ("float[a,b,c,d] y", "Softmax (x)"),
    ("float[a,b,c,d] y", "Softmax <axis = 0> (x)"),
    ("float[a,b,c,d] y", "Softmax <axis = 3> (x)"),
    ("float[a,b,c,d] y", "LogSoftmax <axis = 2> (x)"),
    ("float[a,b,c,d] y", "Clip (x, low, high)"),
    ("float[a,b,c,d] y", "Clip (x, , high)"),
    ("float[a,b,c,d] y, float[e,f,g,h] z", "Split <axis = 2, split = [1, 3]> (x)"),
    ("float[a,b,c,d] y, float[e,f,g,h] z", "Split <axis = 3> (x)"),
    ("float[a,b,c,d] y", "Dropout <ratio = 0.5> (x)"),
    ("float[a,b,c,d] y", "Pad (x, p)"),
    ("float[a,b,c,d] y", "Gather <axis = 2> (x, i)"),
    ("float[a,b,c,d] y", 'Resize <mode = "nearest"> (x, roi, s)'),
    ("float[a,b] y", "Gemm (m, m)"),
    ("float[a,b,c,d] y", "BatchNormalization (x, b, b, b, b)"),
    ("float[a,b,c,d] y", "MaxPool <kernel_shape = [2, 2]> (x)"),
    ("float[a,b,c,d] y", "Mul (x, low)"),
]


@pytest.mark.parametrize(("outputs", "call"), NODES)
@pytest.mark.parametrize("version", [13, 18])
def test_a_raised_node_gives_the_same_bits(outputs: str, call: str, version: int) -> None:
    results = ", ".join(output.split()[1] for output in outputs.split(", "))
    proto = parsed(
        f"""g (float[3,1,4,6] x, float[2,2] m) => ({outputs}) <
            float low = {{-0.5}}, float high = {{0.75}}, int64[2] i = {{0, 3}},
            int64[8] p = {{0, 0, 1, 0, 0, 0, 0, 2}}, float[0] roi = {{}}, float[1] b = {{0.5}},
            float[4] s = {{1, 1, 2, 2}}
        > {{ {results} = {call} }}"""
    )
    raised = ir.to_proto(raise_opset(ir.from_proto(proto), version))
    onnx.checker.check_model(raised, full_check=True)
    assert [(each.domain, each.version) for each in raised.opset_import] == [("", version)]
    assert list(raised.graph.input) == list(proto.graph.input)
    assert list(raised.graph.output) == list(proto.graph.output)
    for before, after in zip(run(proto), run(raised), strict=True):
        assert before.dtype == after.dtype
        assert before.shape == after.shape
        assert before.tobytes() == after.tobytes()


def test_the_converter_alone_is_not_to_be_trusted() -> None:
    # It leaves Hardmax as it is, whose axis means something else from 13 on: hence the check of
    # the bits of every raised model.
    proto = parsed("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax (x) }")
    [before], [after] = run(proto), run(ir.to_proto(raise_opset(ir.from_proto(proto), 13)))
    assert before.tobytes() != after.tobytes()


ANNOTATED = """g (float[2,3] x, bool c) => (float[2,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
    [sum] h = ReduceSum <axes = [1]> (x)
    [soft] s = Softmax <axis = 0> (x)
    [choice] i = If (c) <
        then_branch = then () => (float[2,3] t) { [inner] t = Add (x, h) },
        else_branch = other () => (float[2,3] e) { [inner] e = Sub (x, h) }
    >
    k = Constant <value = float {2}> ()
    [last] y0 = Mul (i, k)
    y1 = Add (y0, w)
    y = Add (y1, s)
}"""


def annotated() -> ir.Model:
    """A model with a text and a record wherever ONNX has room for one."""
    model = load(ANNOTATED)
    model.doc_string, model.producer_name, model.producer_version = "doc", "exporter", "7"
    model.model_version, model.domain = 3, "org.example"
    model.metadata_props["model"] = "kept"
    for graph in main_graphs(model):
        graph.doc_string = f"graph {graph.name}"
        graph.metadata_props["graph"] = graph.name or ""
        for value in (*graph.inputs, *graph.initializers.values()):
            value.doc_string = f"value {value.name}"
            value.metadata_props["value"] = value.name or ""
        for node in graph:
            node.doc_string = f"node {node.outputs[0].name}"
            node.metadata_props["node"] = node.outputs[0].name or ""
            node.outputs[0].metadata_props["value"] = node.outputs[0].name or ""
    return model


def test_texts_and_metadata_of_the_model_stay() -> None:
    raised = raise_opset(annotated(), 13)
    assert raised.metadata_props == {"model": "kept"}
    assert (raised.doc_string, raised.domain, raised.model_version) == ("doc", "org.example", 3)
    assert (raised.producer_name, raised.producer_version) == ("exporter", "7")
    assert raised.ir_version == 8


def test_texts_and_metadata_of_graphs_values_and_nodes_stay() -> None:
    raised = raise_opset(annotated(), 13)
    graphs = list(main_graphs(raised))
    assert [graph.name for graph in graphs] == ["g", "then", "other"]
    for graph in graphs:
        assert graph.doc_string == f"graph {graph.name}"
        assert graph.metadata_props == {"graph": graph.name}
        for value in (*graph.inputs, *graph.initializers.values()):
            assert value.metadata_props == {"value": value.name}
        for value in graph.inputs:
            assert value.doc_string == f"value {value.name}"
    nodes = {node.name: node for graph in graphs for node in graph if node.name}
    assert set(nodes) == {"sum", "soft", "choice", "inner", "last"}
    recorded = {
        node.metadata_props["node"]: node
        for graph in graphs
        for node in graph
        if node.metadata_props
    }
    # Softmax became several nodes: the one that has its name has its record.
    assert {name: node.op_type for name, node in recorded.items()} == {
        "h": "ReduceSum",
        "s": "Softmax",
        "i": "If",
        "t": "Add",
        "e": "Sub",
        "k": "Constant",
        "y0": "Mul",
        "y1": "Add",
        "y": "Add",
    }
    assert recorded["y0"].doc_string == "node y0"
    assert recorded["y0"].outputs[0].metadata_props == {"value": "y0"}


@pytest.mark.parametrize("where", ["initializer", "subgraph", "constant"])
def test_external_data_stays_where_it_is(where: str, tmp_path: pathlib.Path) -> None:
    proto = parsed(
        """g (float[2,4] x, bool c) => (float[2,4] y) {
            k = Constant <value = float[4] {0, 0, 0, 0}> ()
            h = Add (x, k)
            i = If (c) <
                then_branch = then () => (float[2,4] t) { t = Add (h, v) },
                else_branch = other () => (float[2,4] e) { e = Identity (h) }
            >
            j = Add (i, w)
            y = Softmax (j)
        }"""
    )
    constant = proto.graph.node[0].attribute[0].t
    array = np.arange(4, dtype=np.float32)
    inner = proto.graph.node[2].attribute[0].g
    for graph, name in ((proto.graph, "w"), (inner, "v")):
        graph.initializer.append(numpy_helper.from_array(array, name))
    tensors = {
        "initializer": proto.graph.initializer[0],
        "subgraph": inner.initializer[0],
        "constant": constant,
    }
    constant.CopyFrom(numpy_helper.from_array(array))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "model.onnx"
    tensor = tensors[where]
    (folder / "weights.bin").write_bytes(b"1234" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "4"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    onnx.save(proto, path)
    raised = raise_opset(read_model(path).model, 13)
    found = list(opsets._external(raised))
    assert [(each.location, each.offset, each.length) for each in found] == [("weights.bin", 4, 16)]
    assert found[0].base_dir == folder
    np.testing.assert_array_equal(found[0].numpy(), array)


def test_the_same_opset_gives_the_same_object() -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    assert raise_opset(model, 11) is model


@pytest.mark.parametrize("version", [0, -1, NEWEST + 1, 2**40])
@pytest.mark.parametrize("imports", ['"": 11', '"ai.onnx.ml": 3'])
def test_an_opset_that_is_none_is_an_input_error(version: int, imports: str) -> None:
    model = load("g () => () { }", imports)
    with pytest.raises(InputError, match=rf"opset {version} wanted: .* knows 1 to {NEWEST}$"):
        raise_opset(model, version)
    assert ir.to_proto(model) == ir.to_proto(load("g () => () { }", imports))


def test_an_opset_is_not_lowered() -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg (x) }", '"": 13')
    with pytest.raises(InputError, match=r"opset 12 wanted, the model is at 13: .*not be lowered"):
        raise_opset(model, 12)


UNRAISABLE = {
    # The converter would replace Softmax by several nodes, and loses the reader in the branch.
    "a result that a branch reads": (
        """g (float[2,3] x, bool c) => (float[2,3] y) {
            s = Softmax <axis = 0> (x)
            y = If (c) <
                then_branch = then () => (float[2,3] t) { t = Neg (s) },
                else_branch = other () => (float[2,3] e) { e = Abs (s) }
            >
        }""",
        '"": 11',
        13,
    ),
    "an initializer that is an output of another shape": (
        "g (float[2] x) => (float[2] w) <float[1,2] w = {1, 2}> { y = Relu (x) }",
        '"": 11',
        13,
    ),
    "a function that calls itself": (
        """g (float[2,2] x) => (float[2,2] y) { y = local.F (x) }
        <domain: "local", opset_import: ["": 11, "local": 1]> F (a) => (b) { b = local.F (a) }""",
        '"": 11, "local": 1',
        13,
    ),
    "a function with an op that changes": (
        """g (float[2,2] x) => (float[2,2] y) { y = local.F (x) }
        <domain: "local", opset_import: ["": 11]> F (a) => (b) { b = Softmax (a) }""",
        '"": 11, "local": 1',
        13,
    ),
}


@pytest.mark.parametrize("case", UNRAISABLE)
def test_a_model_that_cannot_be_raised_is_refused_on_one_line(case: str) -> None:
    text, imports, version = UNRAISABLE[case]
    with pytest.raises(RefusedError, match=rf"opset {version} is needed, .*: export it") as caught:
        raise_opset(load(text, imports), version)
    assert "\n" not in str(caught.value)
    assert ("--functions inline" in str(caught.value)) == ("function" in case)


def test_functions_whose_ops_do_not_change_stay_as_they_are() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) { h = local.F (x) y = Softmax (h) }
    <domain: "local", opset_import: ["": 14]> F (a) => (b) { b = Relu (a) }"""
    proto = parsed(text, '"": 14, "local": 1')
    raised = ir.to_proto(raise_opset(ir.from_proto(proto), 18))
    assert list(raised.functions) == list(ir.to_proto(ir.from_proto(proto)).functions)
    [before], [after] = run(proto), run(raised)
    assert before.tobytes() == after.tobytes()


def test_ops_of_other_domains_stay_as_they_are() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) {
        [act] h = com.microsoft.Gelu (x)
        [scale] s = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (h)
        u = Unsqueeze <axes = [0]> (s)
        y = Squeeze <axes = [0]> (u)
    }"""
    imports = '"": 11, "com.microsoft": 1, "ai.onnx.ml": 2'
    proto = parsed(text, imports)
    raised = ir.to_proto(raise_opset(ir.from_proto(proto), 13))
    found = {each.domain: each.version for each in raised.opset_import}
    assert found == {"": 13, "com.microsoft": 1, "ai.onnx.ml": 2}
    assert list(raised.graph.node[:2]) == list(proto.graph.node[:2])
    [before], [after] = run(proto), run(raised)
    assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("imports", ['"ai.onnx": 11', '"": 11, "ai.onnx": 11'])
def test_the_domain_may_be_spelt_out(imports: str) -> None:
    model = load("g (float[2,2] x) => (float[2,2] y) { y = Softmax (x) }", imports)
    raised = raise_opset(model, 13)
    assert onnx_opset(raised) == 13
    assert set(raised.opset_imports.values()) == {13}
    assert set(raised.opset_imports) == set(model.opset_imports)


def test_a_model_without_onnx_ops_gets_the_import() -> None:
    text = """g (float[2,2] x) => (float[2,2] y) {
        y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)
    }"""
    model = load(text, '"ai.onnx.ml": 3')
    raised = raise_opset(model, 13)
    assert raised.opset_imports == {"ai.onnx.ml": 3, "": 13}
    assert ir.to_proto(raised).graph == parsed(text, '"ai.onnx.ml": 3').graph


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16])
def test_an_import_is_added_only_where_there_is_none(dtype: ir.DataType) -> None:
    model = load("g () => () { }", '"ai.onnx.ml": 3')
    import_onnx(model, dtype)
    assert model.opset_imports == {"ai.onnx.ml": 3, "": 13}
    for imports in ('"": 9', '"ai.onnx": 9'):
        model = load("g () => () { }", imports)
        before = dict(model.opset_imports)
        import_onnx(model, dtype)
        assert model.opset_imports == before
