import gc
import os
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxcast.errors import InputError
from onnxcast.files import collector_paused, read, read_model
from onnxcast.files.protos import parts
from onnxcast.files.sparse import make_dense

WEIGHT = np.arange(1024, dtype=np.float32) - 100
TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[1024] x) => (float[1024] y)
<float[2] unused = {0.0, 0.0}>
{
   w = Constant <value = float[1] {3.0}> ()
   y = Mul (x, w)
}
"""


def small() -> onnx.ModelProto:
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 2], "f4"), "unused"))
    return model


def external(
    location: str, offset: str | None = "4", length: str | None = "4096"
) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1024])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]>'
        "g (float[1024] x) => (float[1024] y) { y = Add (x, w) }"
    )
    model.graph.initializer.append(tensor)
    return model


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def save_external(folder: Path, location: str = "w.data") -> Path:
    (folder / location).write_bytes(b"head" + WEIGHT.tobytes())
    return save(external(location), folder / "m.onnx")


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    import onnxruntime as ort

    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def refused(source: object) -> str:
    with pytest.raises(InputError) as caught:
        read_model(source)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("as_type", [str, Path])
def test_path_is_read(tmp_path: Path, as_type: type) -> None:
    path = save(small(), tmp_path / "m.onnx")
    source = read_model(as_type(path))
    assert source.path == path
    assert ir.to_proto(source.model).graph == ir.to_proto(ir.from_proto(small())).graph


def test_models_in_memory_are_read_and_have_no_path() -> None:
    proto = small()
    model = ir.from_proto(small())
    expected = ir.to_proto(ir.from_proto(small())).SerializeToString(deterministic=True)
    for given in (proto, model, SimpleNamespace(model=model)):
        source = read_model(given)
        assert source.path is None
        assert ir.to_proto(source.model).SerializeToString(deterministic=True) == expected


@pytest.mark.parametrize("given", [b"bytes", 7, None, SimpleNamespace(model="text")])
def test_other_kinds_are_named_with_what_is_wanted(given: object) -> None:
    message = refused(given)
    assert type(given).__qualname__ in message
    for wanted in ("path", "onnx.ModelProto", "onnx_ir.Model", "ONNXProgram"):
        assert wanted in message


def spoil(model: ir.Model) -> None:
    """Change all that passes change: names, types, tensors, nodes, metadata."""
    for value in list(model.graph.initializers.values()):
        value.name = f"{value.name}_renamed"
        assert value.const_value is not None
        value.const_value.metadata_props["added"] = "1"
        value.const_value = ir.tensor([9.0, 9.0], name=value.name)
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    model.graph.outputs[0].name = "other"
    model.metadata_props["added"] = "1"
    model.opset_imports[""] = 21
    for node in model.graph:
        node.name = "renamed"
        node.attributes["extra"] = ir.AttrInt64("extra", 1)


def test_model_proto_of_the_caller_is_unchanged() -> None:
    proto = small()
    spoil(read_model(proto).model)
    assert proto == small()


def test_ir_model_of_the_caller_is_unchanged_and_its_numbers_are_shared() -> None:
    model = ir.from_proto(small())
    unused = model.graph.initializers["unused"]
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    unused.const_value = ir.tensor(np.array([1, 2], np.float32), name="unused")
    clone = read_model(model).model
    shared = clone.graph.initializers["unused"].const_value
    assert shared is not None
    assert np.shares_memory(shared.numpy(), unused.const_value.numpy())
    spoil(clone)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_what_functions_hold_keeps_its_name_in_the_callers_model() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 9, opset_import: ["" : 19, "l" : 1]>
        g (float[2] x, bool c) => (float[2] y) { y = l.F (x, c) }
        <domain: "l", opset_import: ["" : 19]> F (a, c) => (b) { b = If (c) <
            then_branch = then () => (t) <float w = {1}> { t = Add (a, w) },
            else_branch = other () => (e) { e = Neg (a) }
        > }"""
    )
    [inner, _] = read_model(model).model.functions["l", "F", ""].subgraphs()
    inner.initializers["w"].name = "renamed"
    [mine, _] = model.functions["l", "F", ""].subgraphs()
    tensor = mine.initializers["w"].const_value
    assert tensor is not None
    assert tensor.name == "w"


def test_clone_keeps_external_and_string_tensors(tmp_path: Path) -> None:
    model = ir.load(save_external(tmp_path))
    text = ir.StringTensor([b"a", b"b"], shape=ir.Shape([2]), name="s")
    model.graph.register_initializer(ir.Value(name="s", const_value=text))
    clone = read_model(model).model
    held = {name: value.const_value for name, value in clone.graph.initializers.items()}
    assert isinstance(held["w"], ir.ExternalTensor)
    assert np.array_equal(held["w"].numpy(), WEIGHT)
    assert isinstance(held["s"], ir.StringTensor)
    clone.graph.initializers["w"].name = "renamed"
    original = model.graph.initializers["w"].const_value
    assert original is not None
    assert original.name == "w"


def test_no_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.onnx")


def test_directory(tmp_path: Path) -> None:
    assert "a directory" in refused(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    assert "an empty file" in refused(tmp_path / "m.onnx")


@pytest.mark.parametrize("suffix", [".json", ".onnxtxt", ".onnxtext", ".textproto", ".pbtxt"])
def test_textual_forms(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m{suffix}"
    path.write_text("ir_version: 10")
    assert "a textual form" in refused(path)


@pytest.mark.parametrize(
    "content", [b"hello, this is text", b"\xff" * 4000, b"\x08\x0a\x0b\x0b", b"PK\x03\x04zip"]
)
def test_not_protobuf(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert "not a protobuf" in refused(path)


def test_protobuf_but_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())
    assert "not an ONNX model" in refused(path)


def test_git_lfs_pointer(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "git lfs pull" in refused(path)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    path = save(small(), tmp_path / "m.onnx")
    monkeypatch.setattr(Path, "read_bytes", denied)
    assert "cannot be read (Permission denied)" in refused(path)


def test_every_truncation_is_refused_and_cuts_inside_the_graph_are_told(tmp_path: Path) -> None:
    model = small()
    model.producer_name = "somebody"
    whole = model.SerializeToString()
    graph_begins = whole.index(model.graph.SerializeToString())
    graph_ends = graph_begins + len(model.graph.SerializeToString())
    path = tmp_path / "m.onnx"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        message = refused(path)
        if graph_begins <= size < graph_ends:
            wanted = f"truncated: {size} bytes found, at least {graph_ends} wanted"
            assert wanted in message


def test_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with open(path, "wb") as file:
        file.truncate(2**31)
    assert "save the model with external data" in refused(path)


@pytest.mark.parametrize("in_file", [True, False])
def test_invalid_model_gives_the_checkers_reason_on_one_line(tmp_path: Path, in_file: bool) -> None:
    model = small()
    model.graph.node[1].input[0] = "nowhere"
    message = refused(save(model, tmp_path / "m.onnx") if in_file else model)
    assert "not a valid ONNX model" in message
    assert "nowhere" in message


def test_training_info(tmp_path: Path) -> None:
    model = small()
    model.training_info.add().algorithm.name = "step"
    assert "training_info" in refused(save(model, tmp_path / "m.onnx"))


def test_what_onnx_ir_cannot_hold_is_an_input_error() -> None:
    model = small()
    model.opset_import.add(domain="mine", version=1)
    map_type = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    model.graph.node.append(helper.make_node("Mine", ["x"], ["z"], domain="mine", of_type=map_type))
    message = refused(model)
    assert "onnx_ir cannot hold this model" in message


def old(*inputs: str) -> onnx.ModelProto:
    """A model of IR version 3, whose initializer `w` is an input only if it is in `inputs`."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in inputs]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        values,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.array([1, 2], np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)


@pytest.mark.parametrize("in_file", [False, True])
def test_initializers_that_are_no_inputs_make_ir_version_4(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, in_file: bool
) -> None:
    given = old("x")
    source = read_model(save(given, tmp_path / "m.onnx") if in_file else given)
    assert source.model.ir_version == 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "read as IR version 4" in caplog.text
    assert "w in initializer but not in graph input" in caplog.text
    assert given == old("x")
    onnx.checker.check_model(ir.to_proto(source.model), full_check=True)


def test_a_sound_model_of_ir_version_3_stays_one(caplog: pytest.LogCaptureFixture) -> None:
    assert read_model(old("x", "w")).model.ir_version == 3
    assert not caplog.records


@pytest.mark.parametrize("inputs", [("x",), ("x", "w")])
def test_another_fault_of_ir_version_3_keeps_its_own_message(inputs: tuple[str, ...]) -> None:
    model = old(*inputs)
    model.graph.node[0].op_type = "NoSuchOp"
    message = refused(model)
    assert "not a valid ONNX model" in message
    assert "IR version 4" not in message
    assert ("NoSuchOp" in message) == (inputs == ("x", "w")), "the checker tells its first fault"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    assert "not a regular file" in refused(tmp_path / "m.onnx")


def test_external_data_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_external(tmp_path)
    read_with_path = Path.read_bytes
    opened: list[Path] = []

    def watched(self: Path) -> bytes:
        opened.append(self)
        return read_with_path(self)

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("external data was read")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", watched)
        patch.setattr("builtins.open", touched)
        patch.setattr(ir.ExternalTensor, "_load", touched)
        source = read_model(path)
    assert opened == [path]
    tensor = source.model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert tensor.raw is None
    assert np.array_equal(tensor.numpy(), WEIGHT)


def test_external_data_is_found_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_external(tmp_path)
    monkeypatch.chdir(tmp_path)
    source = read_model("m.onnx")
    monkeypatch.chdir("/")
    tensor = source.model.graph.initializers["w"].const_value
    assert tensor is not None
    assert np.array_equal(tensor.numpy(), WEIGHT)


def test_external_data_in_subgraphs_and_functions_gets_its_folder(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(b"head" + WEIGHT.tobytes())
    constant = helper.make_node(
        "Constant", [], ["w"], value=external("w.data").graph.initializer[0]
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    function = helper.make_function(
        "f", "F", ["a"], ["b"], [constant, helper.make_node("Add", ["a", "w"], ["b"])], opsets[:1]
    )
    value = helper.make_tensor_value_info("v", TensorProto.FLOAT, [1024])
    branch = helper.make_graph(
        [helper.make_node("Add", ["f", "w2"], ["v"])],
        "b",
        [],
        [value],
        [external("w.data").graph.initializer[0]],
    )
    branch.initializer[0].name = "w2"
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("F", ["x"], ["f"], domain="f"),
                helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
            ],
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, [1024]),
                helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1024])],
        ),
        opset_imports=opsets,
        functions=[function],
        ir_version=10,
    )
    read = read_model(save(model, tmp_path / "m.onnx")).model
    (body,) = read.functions.values()
    held = body[0].attributes["value"].as_tensor()
    assert np.array_equal(held.numpy(), WEIGHT)
    inner = read.graph[1].attributes["then_branch"].as_graph().initializers["w2"].const_value
    assert inner is not None
    assert np.array_equal(inner.numpy(), WEIGHT)


@pytest.mark.parametrize("location", ["/etc/passwd", "../w.data", "sub/../../w.data", ""])
def test_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "inside"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "w.data").write_bytes(b"head" + WEIGHT.tobytes())
    message = refused(save(external(location), folder / "m.onnx"))
    assert "outside the model's folder" in message
    assert repr(location) in message


def test_external_data_missing(tmp_path: Path) -> None:
    assert "no such file" in refused(save(external("w.data"), tmp_path / "m.onnx"))
    assert "no such file" in refused(external("w.data"))


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_external_data_that_is_a_link(tmp_path: Path, link: object) -> None:
    assert callable(link)
    path = save_external(tmp_path)
    (tmp_path / "w.data").rename(tmp_path / "real")
    link(tmp_path / "real", tmp_path / "w.data")
    assert "a link" in refused(path)


@pytest.mark.parametrize(
    ("offset", "length", "reason"),
    [
        ("8", "4096", "ends at byte 4104, but 4100"),
        ("8", None, "ends at byte 4104, but 4100"),
        ("0", "4092", "has 4092 bytes; wanted 4096"),
        ("-4", "4096", "offset '-4'"),
        ("x", "4096", "offset 'x'"),
    ],
)
def test_external_data_that_does_not_fit(
    tmp_path: Path, offset: str, length: str | None, reason: str
) -> None:
    save_external(tmp_path)
    assert reason in refused(save(external("w.data", offset, length), tmp_path / "m.onnx"))


def sparse(indices: np.ndarray) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.5]),
        numpy_helper.from_array(indices.astype(np.int64), "i"),
        [2, 3],
    )


def with_sparse(indices: np.ndarray, where: str) -> onnx.ModelProto:
    """Make a model that adds the sparse [2, 3] matrix w: initializer, constant, or in a branch."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    tensors = [sparse(indices)]
    if where == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=tensors.pop()))
    if where == "branch":
        branch = helper.make_graph(nodes, "b", [], [y], sparse_initializer=[tensors.pop()])
        yes = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
        nodes = [yes, helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    graph = helper.make_graph(nodes, "g", [x], [y], sparse_initializer=tensors)
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("where", ["initializer", "constant", "branch"])
@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]], ids=["flat", "coordinates"])
def test_sparse_tensors_are_kept(tmp_path: Path, where: str, indices: list[object]) -> None:
    model = with_sparse(np.array(indices), where)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = run(model, x=x)
    assert np.array_equal(expected - x, np.array([[0, 1.5, 0], [0, 0, -2.5]]))
    for source in (model, save(model, tmp_path / "m.onnx")):
        assert np.array_equal(run(ir.to_proto(read_model(source).model), x=x), expected)
    assert model == with_sparse(np.array(indices), where)


def with_function(
    default: onnx.TensorProto | None, given: onnx.TensorProto | None
) -> onnx.ModelProto:
    """A call of a function whose constant is an attribute of it."""
    constant = helper.make_node("Constant", [], ["c"])
    kind = onnx.AttributeProto.TENSOR
    constant.attribute.add(name="value", type=kind, ref_attr_name="v")
    function = helper.make_function(
        "local",
        "AddConstant",
        ["x"],
        ["y"],
        [constant, helper.make_node("Add", ["x", "c"], ["y"])],
        [helper.make_opsetid("", 18)],
        attributes=[] if default is not None else ["v"],
        attribute_protos=[] if default is None else [helper.make_attribute("v", default)],
    )
    call = helper.make_node("AddConstant", ["x"], ["y"], domain="local")
    if given is not None:
        call.attribute.append(helper.make_attribute("v", given))
    graph = helper.make_graph(
        [call],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=9)


def test_a_tensor_may_be_an_attribute_of_a_function() -> None:
    tensor = numpy_helper.from_array(np.ones(2, np.float32))
    assert read_model(with_function(None, tensor)).model.functions
    assert read_model(with_function(tensor, None)).model.functions


def test_default_of_a_function_must_not_lead_out_of_the_folder() -> None:
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/hostname")
    with pytest.raises(InputError, match="outside the model's folder"):
        read_model(with_function(tensor, None))


def test_sparse_attribute_of_another_op_is_refused() -> None:
    model = with_sparse(np.array([1, 5]), "constant")
    model.graph.node[0].op_type, model.graph.node[0].domain = "Mine", "mine"
    model.opset_import.add(domain="mine", version=1)
    assert "sparse tensors in Constant only" in refused(model)


def test_sparse_tensor_too_large_to_be_dense_is_refused() -> None:
    model = with_sparse(np.array([1, 5]), "initializer")
    model.graph.sparse_initializer[0].dims[:] = [2**20, 2**20]
    assert "cannot be made dense" in refused(model)


def test_no_sparse_tensor_is_left() -> None:
    for where in ("initializer", "constant", "branch"):
        model = with_sparse(np.array([1, 5]), where)
        make_dense(parts(model), "", "m")
        assert "sparse" not in str(model)


def test_what_lives_on_is_old_to_the_collector() -> None:
    with collector_paused(keeps=True):
        made: list[list[int]] = [[] for _ in range(10_000)]
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert young.isdisjoint(map(id, made))
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(("much", "is_left"), [(0, False), (10**9, True)])
def test_what_earlier_calls_left_goes_if_it_is_much(
    much: int, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ring:
        def __init__(self) -> None:
            self.me = self

    monkeypatch.setattr("onnxcast.files.read._MUCH", much)
    with collector_paused(keeps=True):
        ring = weakref.ref(Ring())
    with collector_paused(keeps=True):
        assert (ring() is not None) is is_left


def test_what_others_have_frozen_stays_so() -> None:
    gc.freeze()
    try:
        with collector_paused(keeps=True):
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_paused_and_comes_back(enabled: bool) -> None:
    def fail() -> None:
        with collector_paused():
            assert not gc.isenabled()
            raise KeyError

    if not enabled:
        gc.disable()
    try:
        with pytest.raises(KeyError):
            fail()
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_graphs_inside_one_another_are_bounded_in_memory_too() -> None:
    model = small()
    graph = model.graph
    for _ in range(40):
        attribute = graph.node.add(op_type="If").attribute.add(
            name="then_branch", type=onnx.AttributeProto.GRAPH
        )
        graph = attribute.g
    assert "more than 32 graphs inside one another" in refused(model)


def test_functions_need_an_ir_version_that_has_them() -> None:
    model = small()
    model.functions.add(domain="local", name="F")
    model.ir_version = 7
    assert "functions found in IR version 7" in refused(model)


@pytest.mark.parametrize("in_file", [True, False])
def test_large_initializers_are_not_copied_to_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_file: bool
) -> None:
    monkeypatch.setattr(read, "_LARGE_INLINE", 1)
    monkeypatch.setattr(read, "_LARGE_TENSOR", 1)
    given: list[object] = []
    check = onnx.checker.check_model

    def watched(model: onnx.ModelProto | str) -> None:
        given.append(model)
        check(model)

    monkeypatch.setattr(onnx.checker, "check_model", watched)
    model = small()
    wanted = read_model(model).model.graph.initializers
    source = save(model, tmp_path / "m.onnx") if in_file else model
    found = read_model(source).model.graph.initializers
    assert list(found) == list(wanted)
    assert all(isinstance(each, onnx.ModelProto) for each in given)
    assert not any(each.graph.initializer for each in given if isinstance(each, onnx.ModelProto))
    model.graph.node[1].input[0] = "nowhere"
    assert "nowhere" in refused(model)
