"""Mutations that know what a model is: each changes one thing that may be wrong with a file.

All draw from a `random.Random`, so that a seed repeats them.
"""

import random
from collections.abc import Callable, Sequence

import onnx
from onnx import AttributeProto, TensorProto

__all__ = ["mutated"]

_SIZES = (-1, 0, 1, 2, 3, 4, 7, 1024, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))
_NAMES = ("", "x", "y", "a\0b", "w", "é", "a/b", "../w.data", "w.data", "w_rounded", "x" * 300)
_OPS = (
    *("Cast", "CastLike", "MatMul", "Gemm", "Conv", "Add", "Mul", "Relu", "Softmax", "Identity"),
    *("Constant", "ConstantOfShape", "Where", "Concat", "Split", "If", "Loop", "Scan", "Reshape"),
    *("Shape", "Gather", "TopK", "ReduceSum", "LayerNormalization", "DequantizeLinear", "Range"),
    *("SequenceConstruct", "SequenceAt", "Optional", "Clip", "Pad", "LSTM", "Einsum", "Dropout"),
)
_TEXTS = (b"", b"x", b"\xff", b"ij->ji", b"...i", b"->", b"down", b"SAME_UPPER", b"0" * 300)
_NOTES = (
    *("onnxcast.pin", "onnxcast.fallback", "onnxcast.format", "onnxcast.operands"),
    *("onnxcast.rounding", "onnxcast.position", "onnxcast.map_type", "onnxcast.token", "other"),
)
_NOTED = ("", "x", "0", "float16", "float32r", "0:float32r", "CAE=", "a\nb", "9" * 5000)
_DOMAINS = ("", "", "ai.onnx", "ai.onnx.ml", "com.microsoft", "local")

Mutation = Callable[[onnx.ModelProto, random.Random], None]


def mutated(data: bytes, rng: random.Random) -> bytes | None:
    """The model in `data` with one to four changes; None if there is no model in it."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        for _ in range(rng.randint(1, 4)):
            rng.choice(_MUTATIONS)(model, rng)
        return bytes(model.SerializeToString())
    except Exception:  # whatever protobuf refuses to hold, nothing here is under test
        return None


def _graph(model: onnx.ModelProto, rng: random.Random) -> onnx.GraphProto:
    """The main graph, or one inside it."""
    graph = model.graph
    while rng.random() < 0.7:
        inner = [
            attribute.g
            for node in graph.node
            for attribute in node.attribute
            if attribute.type == AttributeProto.GRAPH
        ]
        if not inner:
            break
        graph = rng.choice(inner)
    return graph


def _nodes(model: onnx.ModelProto, rng: random.Random) -> list[onnx.NodeProto]:
    """The nodes of some graph or function."""
    if model.functions and rng.random() < 0.4:
        return list(rng.choice(model.functions).node)
    return list(_graph(model, rng).node)


def _node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto:
    return rng.choice(_nodes(model, rng) or [onnx.NodeProto()])


def _known_names(model: onnx.ModelProto, rng: random.Random) -> list[str]:
    graph = _graph(model, rng)
    found = [each.name for each in (*graph.input, *graph.initializer, *graph.output)]
    for node in graph.node:
        found += node.output
    return [*found, rng.choice(_NAMES)]


def _tensors(model: onnx.ModelProto, rng: random.Random) -> list[TensorProto]:
    graph = _graph(model, rng)
    inside = (attribute for node in graph.node for attribute in node.attribute)
    held = [attribute.t for attribute in inside if attribute.type == AttributeProto.TENSOR]
    return [*graph.initializer, *held] or [graph.initializer.add(name="w")]


def _type(rng: random.Random) -> int:
    known: list[int] = TensorProto.DataType.values()
    return rng.choice([*known, 99])


def _rewire(model: onnx.ModelProto, rng: random.Random) -> None:
    node, names = _node(model, rng), _known_names(model, rng)
    if node.input and rng.random() < 0.8:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    else:
        node.input.append(rng.choice(names))


def _rename_result(model: onnx.ModelProto, rng: random.Random) -> None:
    node, names = _node(model, rng), _known_names(model, rng)
    if node.output and rng.random() < 0.8:
        node.output[rng.randrange(len(node.output))] = rng.choice(names)
    else:
        node.output.append(rng.choice(names))


def _rename_node(model: onnx.ModelProto, rng: random.Random) -> None:
    _node(model, rng).name = rng.choice(_NAMES)


def _other_op(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    node.op_type = rng.choice(_OPS)
    if rng.random() < 0.2:
        node.domain = rng.choice(_DOMAINS)


def _drop_operand(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    values = node.input if rng.random() < 0.6 else node.output
    if values:
        del values[rng.randrange(len(values))]


def _new_node(model: onnx.ModelProto, rng: random.Random) -> None:
    graph, names = _graph(model, rng), _known_names(model, rng)
    node = graph.node.add(op_type=rng.choice(_OPS), input=rng.choices(names, k=rng.randint(0, 3)))
    node.output.append(rng.choice([f"new{rng.randrange(9)}", *names]))
    if node.op_type == "Cast":
        node.attribute.add(name="to", type=AttributeProto.INT, i=_type(rng))


def _move_node(model: onnx.ModelProto, rng: random.Random) -> None:
    graph = _graph(model, rng)
    nodes = list(graph.node)
    if nodes:
        nodes.insert(rng.randrange(len(nodes)), nodes.pop(rng.randrange(len(nodes))))
        if rng.random() < 0.3:
            nodes.append(nodes[0])
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _drop_node(model: onnx.ModelProto, rng: random.Random) -> None:
    graph = _graph(model, rng)
    if graph.node:
        del graph.node[rng.randrange(len(graph.node))]


def _change_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if not node.attribute or rng.random() < 0.1:
        node.attribute.add(
            name=rng.choice(("to", "axis", "value", "body")), type=rng.randint(0, 15)
        )
        return
    attribute = rng.choice(node.attribute)
    change = rng.randrange(6)
    if change == 0:
        attribute.i = rng.choice((*_SIZES, *TensorProto.DataType.values()))
    elif change == 1:
        attribute.ints[:] = rng.choices(_SIZES, k=rng.randint(0, 4))
    elif change == 2:
        attribute.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
    elif change == 3:
        attribute.type = rng.randint(0, 14)
    elif change == 4:
        attribute.ref_attr_name = rng.choice(_NAMES)
    else:
        node.attribute.remove(attribute)


def _change_text(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    texts = [each for each in node.attribute if each.type == AttributeProto.STRING]
    if not texts:
        name = rng.choice(("round_mode", "equation", "mode", "direction"))
        texts = [node.attribute.add(name=name, type=AttributeProto.STRING)]
    rng.choice(texts).s = rng.choice(_TEXTS)


def _annotate(model: onnx.ModelProto, rng: random.Random) -> None:
    """Write metadata, such as onnxcast itself writes."""
    graph = _graph(model, rng)
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    holder = rng.choice((model, graph, _node(model, rng), *values))
    holder.metadata_props.add(key=rng.choice(_NOTES), value=rng.choice(_NOTED))


def _change_tensor(model: onnx.ModelProto, rng: random.Random) -> None:
    tensor = rng.choice(_tensors(model, rng))
    change = rng.randrange(6)
    if change == 0:
        tensor.dims[:] = rng.choices(_SIZES, k=rng.randint(0, 3))
    elif change == 1:
        tensor.data_type = _type(rng)
    elif change == 2:
        tensor.raw_data = rng.randbytes(rng.choice((0, 1, 4, 8, 16, 64)))
    elif change == 3:
        tensor.float_data.extend([rng.choice((1e-30, 1e9, float("nan")))] * rng.randint(1, 4))
    elif change == 4:
        tensor.name = rng.choice(_known_names(model, rng))
    else:
        _make_external(tensor, rng)


def _make_external(tensor: TensorProto, rng: random.Random) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    for field in ("raw_data", "float_data", "int64_data", "int32_data"):
        tensor.ClearField(field)
    entries = {
        "location": rng.choice(
            ("w.data", "w.data", "w.data", *_NAMES, "/etc/passwd", "model.onnx")
        ),
        "offset": rng.choice(("0", "0", "64", "4092", "-1", "", "9" * 30)),
        "length": rng.choice(("4", "16", "4096", "0", "x")),
    }
    for key in rng.sample(list(entries), k=rng.choice((1, 2, 3, 3))):
        tensor.external_data.add(key=key, value=entries[key])


def _change_declaration(model: onnx.ModelProto, rng: random.Random) -> None:
    graph = _graph(model, rng)
    infos: Sequence[onnx.ValueInfoProto] = [*graph.input, *graph.output, *graph.value_info]
    if not infos or rng.random() < 0.2:
        kind = rng.choice((graph.input, graph.output, graph.value_info))
        infos = [kind.add(name=rng.choice(_known_names(model, rng)))]
    info, change = rng.choice(infos), rng.randrange(5)
    if change == 0:
        info.type.tensor_type.elem_type = _type(rng)
    elif change == 1:
        info.type.tensor_type.shape.dim.add(dim_value=rng.choice(_SIZES))
    elif change == 2:
        info.name = rng.choice(_known_names(model, rng))
    elif change == 3:
        info.type.sequence_type.elem_type.tensor_type.elem_type = _type(rng)
    else:
        info.ClearField("type")


def _change_version(model: onnx.ModelProto, rng: random.Random) -> None:
    if rng.random() < 0.4:
        model.ir_version = rng.choice((0, 1, 3, 4, 7, 8, 10, 13, 99, -1))
    elif model.opset_import and rng.random() < 0.7:
        rng.choice(model.opset_import).version = rng.choice((-1, 0, 1, 7, 11, 13, 18, 21, 25, 999))
    else:
        model.opset_import.add(domain=rng.choice(_DOMAINS), version=1)


def _wrap_in_branch(model: onnx.ModelProto, rng: random.Random) -> None:
    """Put the nodes of a graph into both branches of an If."""
    graph = _graph(model, rng)
    body = onnx.GraphProto(name="body", node=graph.node)
    body.output.extend(graph.output)
    names = [output.name for output in graph.output]
    del graph.node[:]
    node = graph.node.add(op_type="If", input=[rng.choice(_known_names(model, rng))], output=names)
    for name in ("then_branch", "else_branch"):
        node.attribute.add(name=name, type=AttributeProto.GRAPH, g=body)


def _make_function(model: onnx.ModelProto, rng: random.Random) -> None:
    """Let a node call a function that holds a node of its op."""
    node = _node(model, rng)
    function = model.functions.add(domain="local", name=f"F{rng.randrange(3)}")
    function.opset_import.extend(model.opset_import)
    function.input.extend(f"i{index}" for index in range(len(node.input)))
    function.output.extend(f"o{index}" for index in range(len(node.output)))
    inner = function.node.add(op_type=node.op_type, domain=node.domain)
    inner.input.extend(function.input)
    inner.output.extend(function.output)
    inner.attribute.extend(node.attribute)
    node.op_type, node.domain = function.name, "local"
    del node.attribute[:]
    if all(each.domain != "local" for each in model.opset_import):
        model.opset_import.add(domain="local", version=1)


_MUTATIONS: Sequence[Mutation] = (
    _rewire,
    _rewire,
    _rename_result,
    _rename_node,
    _other_op,
    _drop_operand,
    _new_node,
    _move_node,
    _drop_node,
    _change_attribute,
    _change_attribute,
    _change_text,
    _annotate,
    _change_tensor,
    _change_tensor,
    _change_declaration,
    _change_version,
    _wrap_in_branch,
    _make_function,
)
