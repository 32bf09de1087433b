"""Files that were made to do harm are refused: one line, exit code 2, nothing written."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxcast.files import wire
from tests.cli.conftest import Command
from tests.cli.test_bad_input import check

Make = Callable[[Path], onnx.ModelProto | bytes]


def small() -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        "agraph (float[4] x) => (float[4] y) { y = Add (x, w) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    return model


def external(location: str, offset: str = "0", length: str = "16") -> onnx.ModelProto:
    model = small()
    make_external(model.graph.initializer[0], location, offset, length)
    return model


def make_external(tensor: TensorProto, location: str, offset: str, length: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=value)


def placed(location: str, offset: str = "0", length: str = "16") -> Make:
    return lambda _folder: external(location, offset, length)


def linked_file(folder: Path) -> onnx.ModelProto:
    (folder / "link.data").symlink_to(folder.parent / "secret.data")
    return external("link.data")


def linked_folder(folder: Path) -> onnx.ModelProto:
    (folder / "link").symlink_to(folder.parent)
    return external("link/secret.data")


def second_name(folder: Path) -> onnx.ModelProto:
    os.link(folder.parent / "secret.data", folder / "name.data")
    return external("name.data")


def said_twice(_folder: Path) -> onnx.ModelProto:
    model = external("w.data")
    model.graph.initializer[0].external_data.add(key="location", value="../secret.data")
    return model


def overlapping(offset: str, dtype: int) -> Make:
    def make(_folder: Path) -> onnx.ModelProto:
        model = external("w.data")
        other = model.graph.initializer.add(name="v", dims=[4], data_type=dtype)
        make_external(other, "w.data", offset, "16")
        return model

    return make


def shaped(*dims: int) -> Make:
    def make(_folder: Path) -> onnx.ModelProto:
        model = small()
        model.graph.initializer[0].dims[:] = dims
        return model

    return make


def numbers(count: int) -> Make:
    def make(_folder: Path) -> onnx.ModelProto:
        model = small()
        model.graph.initializer[0].ClearField("raw_data")
        model.graph.initializer[0].float_data.extend([1.0] * count)
        return model

    return make


def named(**names: str) -> Make:
    def make(_folder: Path) -> onnx.ModelProto:
        model = small()
        for field, name in names.items():
            setattr(model.graph.node[0], field, name)
        return model

    return make


def sparse(name: str) -> Make:
    def make(_folder: Path) -> onnx.ModelProto:
        model = small()
        values = onnx.numpy_helper.from_array(np.ones(1, np.float32), name)
        indices = onnx.numpy_helper.from_array(np.zeros(1, np.int64))
        model.graph.sparse_initializer.append(
            onnx.SparseTensorProto(values=values, indices=indices, dims=[2])
        )
        return model

    return make


def twice(kind: str) -> Make:
    def make(_folder: Path) -> onnx.ModelProto:
        model = small()
        fields = getattr(model.graph, kind)
        fields.append(fields[0])
        return model

    return make


def cyclic(_folder: Path) -> onnx.ModelProto:
    model = small()
    model.graph.node.add(op_type="Neg", input=["q"], output=["p"])
    model.graph.node.add(op_type="Neg", input=["p"], output=["q"])
    return model


def recursive(_folder: Path) -> onnx.ModelProto:
    model = small()
    version = [helper.make_opsetid("local", 1)]
    model.opset_import.extend(version)
    for name, called in (("F", "G"), ("G", "F")):
        call = helper.make_node(called, ["a"], ["b"], domain="local")
        model.functions.append(helper.make_function("local", name, ["a"], ["b"], [call], version))
    return model


def message(field: int, body: bytes) -> bytes:
    """A field that holds a message, as protobuf writes it."""
    size, digits = len(body), bytearray()
    while size > 127:
        digits.append(size & 127 | 128)
        size >>= 7
    return bytes([field << 3 | 2, *digits, size]) + body


def nested(_folder: Path) -> bytes:
    """Bodies of If inside one another."""
    body = b""
    for _ in range(40):
        body = message(1, message(5, message(6, body)))  # graph.node.attribute.g
    return b"\x08\x08" + message(7, body)


def not_text(found: bytes) -> Make:
    """A text that is no UTF-8 in place of `found`, which is there once."""

    def make(_folder: Path) -> bytes:
        model = small()
        model.producer_name = "aproducer"
        model.graph.node[0].metadata_props.add(key="akey")
        data = bytes(model.SerializeToString())
        assert data.count(found) == 1
        return data.replace(found, b"\xff" + found[1:])

    return make


def bomb(_folder: Path) -> bytes:
    """Nodes of two bytes each."""
    return b"\x08\x08" + message(7, message(1, b"") * 3000)


def packed_bomb(_folder: Path) -> bytes:
    """Numbers of a byte each that take eight in memory."""
    return b"\x08\x08" + message(7, message(5, message(7, bytes(60_000))))


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (placed("/etc/passwd"), "at '/etc/passwd', outside the model's folder"),
        (placed("../secret.data"), "at '../secret.data', outside the model's folder"),
        (placed("a/../../secret.data"), "outside the model's folder"),
        (placed("C:\\secret.data"), "outside the model's folder"),
        (placed("..\\secret.data"), "outside the model's folder"),
        (placed("w\0.data"), "outside the model's folder"),
        (linked_file, "at 'link.data', a link"),
        (linked_folder, "at 'link/secret.data', a link"),
        (second_name, "at 'name.data', a link"),
        (said_twice, "says something twice"),
        (placed("w.data", "64"), "ends at byte 80, but 64 bytes were found"),
        (placed("w.data", "0", "65"), "ends at byte 65, but 64 bytes were found"),
        (placed("w.data", "-4"), "offset '-4'"),
        (placed("w.data", "9" * 5000), "two numbers of bytes"),
        (placed("w.data", "0", "12"), "has 12 bytes; wanted 16"),
        (overlapping("8", TensorProto.FLOAT), "'w' and 'v' overlap and are not the same"),
        (overlapping("0", TensorProto.INT32), "'w' and 'v' overlap and are not the same"),
        (shaped(-4), "'w' has shape [-4]"),
        (shaped(2**62, 4), "has shape [4611686018427387904, 4]"),
        (shaped(2**32, 2**32), "product is below 2**63"),
        (shaped(2**40), "has 16 bytes; wanted 4398046511104"),
        (shaped(5), "has 16 bytes; wanted 20"),
        (shaped(3), "has 16 bytes; wanted 12"),
        (numbers(3), "has 3 float_data; wanted 4"),
        (numbers(0), "has 0 float_data; wanted 4"),
        (named(name="a\0b"), "the name 'a\\x00b' holds NUL"),
        (named(op_type="Add\0"), "the name 'Add\\x00' holds NUL"),
        (sparse("s\0p"), "the name 's\\x00p' holds NUL"),
        (twice("initializer"), "w initializer name is not unique"),
        (twice("input"), "'x' has been used as graph input names multiple times"),
        (twice("node"), "'y' has been used as output names multiple times"),
        (cyclic, "topologically sorted"),
        (recursive, "recursive"),
        (not_text(b"agraph"), "graph.name is b'\\xffgraph', which is not UTF-8"),
        (not_text(b"aproducer"), "producer_name is b'\\xffproducer', which is not UTF-8"),
        (not_text(b"akey"), "graph.node[0].metadata_props[0].key is b'\\xffkey', which"),
        (nested, "more than 100 messages inside one another"),
        (bomb, "unfold to more than 300000 beyond"),
        (packed_bomb, "unfold to more than 300000 beyond"),
    ],
)
def test_a_hostile_file_is_refused(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Make,
    wanted: str,
) -> None:
    monkeypatch.setattr(wire, "_SMALL_FILE", 2000)
    monkeypatch.setattr(wire, "_MOST_UNFOLDED", 300_000)
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.data").write_bytes(bytes(64))
    (folder / "w.data").write_bytes(bytes(64))
    made = make(folder)
    content = made if isinstance(made, bytes) else made.SerializeToString()
    (folder / "m.onnx").write_bytes(content)
    before = sorted(folder.iterdir())
    check(command("optimize", folder / "m.onnx", "--no-verify"), "m.onnx: ", wanted)
    assert sorted(folder.iterdir()) == before


def functions(*bodies: str) -> onnx.ModelProto:
    texts = (f'<domain: "l", opset_import: ["" : 17, "l" : 1]> {body}' for body in bodies)
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "l" : 1]> '
        f"g (float[2] x) => (float[2] y) {{ y = l.F0 <k = 1> (x) }} {''.join(texts)}"
    )


def chain(body: str, last: str, depth: int) -> onnx.ModelProto:
    bodies = (f"F{i} (a) => (b) {{ {body.format(i + 1)} }}" for i in range(depth))
    return functions(*bodies, f"F{depth} (a) => (b) {{ {last} }}")


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (chain("b = l.F{} (a)", "b = Exp (a)", 101), "more than 100 deep"),
        (chain("c = l.F{0} (a) b = l.F{0} (c)", "b = Exp (a)", 20), "more than 1000000 nodes"),
        (
            functions("F0 <k> (a) => (b) { b = LeakyRelu <alpha: float = @k> (a) }"),
            "attribute 'k' of type INT, the function reads it as FLOAT",
        ),
    ],
)
def test_functions_that_do_harm_are_refused(
    command: Command, tmp_path: Path, model: onnx.ModelProto, wanted: str
) -> None:
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    check(command("optimize", tmp_path / "m.onnx", "--no-verify"), wanted)
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]


def test_a_name_of_two_lines_is_told_on_one(command: Command, tmp_path: Path) -> None:
    model = named(op_type="Add\nor not", name="a\rb\u2028c")(tmp_path)
    assert isinstance(model, onnx.ModelProto)
    model.graph.node[0].attribute.add(name="of no type")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    ran = command("optimize", tmp_path / "m.onnx", "--no-verify")
    check(ran, r"node 'a\rb\u2028c' (Add\nor not) has no type")


def test_tensors_may_share_all_of_their_bytes(command: Command, tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(64))
    made = overlapping("0", TensorProto.FLOAT)(tmp_path)
    assert isinstance(made, onnx.ModelProto)
    onnx.save(made, tmp_path / "m.onnx")
    assert command("optimize", tmp_path / "m.onnx", "--no-verify").code == 0


def test_the_bounds_let_ordinary_models_pass() -> None:
    """A million nodes of a dozen fields each are within them."""
    assert wire._MOST_UNFOLDED > 1_000_000 * 12 * 128


def test_names_do_not_steer_the_terminal(command: Command, tmp_path: Path) -> None:
    steering = "\x1b[2J\x1b]0;\x07\r\x9b\u202e"
    node = helper.make_node("Exp", [f"x{steering}"], [f"y{steering}"], name=f"n{steering}")
    (x, y) = (
        helper.make_tensor_value_info(f"{name}{steering}", TensorProto.FLOAT, [2]) for name in "xy"
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opset)
    model.ir_version = 8
    model.producer_name = steering
    path, result = tmp_path / "model.onnx", tmp_path / "result.onnx"
    onnx.save(model, path)
    np.savez(tmp_path / "other.npz", z=np.ones(2, np.float32))
    for arguments, code in (
        (["inspect", path, "--dtype", "fp16"], 0),
        (["optimize", path, "-o", result, "--dtype", "fp16", "--narrow-op", "Exp"], 0),
        (["explain", path, "--node", f"n{steering}"], 0),
        (["verify", path, result], 0),
        (["optimize", path, "-o", result, "--inputs", tmp_path / "other.npz"], 2),
    ):
        ran = command(*arguments)
        assert ran.code == code, ran.err
        said = (ran.out + ran.err).replace("\n", "")
        assert said.isprintable()
        assert "x1b[2J" in said
