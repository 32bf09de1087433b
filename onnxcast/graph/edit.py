"""Edit graphs: new names that are new everywhere, Casts beside their producer, constants.

Every edit keeps value_info true where the model has it and adds none where it has none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxcast import formats
from onnxcast.graph.ties import Exit
from onnxcast.graph.types import element_type
from onnxcast.graph.walk import Contents, contents

__all__ = [
    "Casts",
    "Names",
    "absorb_casts",
    "bypass",
    "cast_target",
    "casts_among",
    "constant_of",
    "is_plain_cast",
    "move_outputs",
    "new_constant",
    "numbers_of",
    "retype",
    "set_constant",
    "take_place",
]

_NO_NUMBERS = (formats.Kind.COMPLEX, formats.Kind.STRING)

_SATURATING = frozenset({ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2})


class Names:
    """Makes names that no value and no node of the model bears, in any scope."""

    def __init__(self, model: ir.Model, found: Contents | None = None) -> None:
        """Look at all of `model`, whose contents may be at hand."""
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        graphs, nodes = found or contents(model)
        for graph in graphs:
            self._taken.update([value.name or "" for value in graph.inputs])
            self._taken.update(graph.initializers)
        self._taken.update([node.name or "" for node in nodes])
        self._taken.update([value.name or "" for node in nodes for value in node.outputs])

    def fresh(self, wanted: str) -> str:
        """`wanted` if it is free, else the first free of ``wanted_1``, ``wanted_2``, …."""
        name, count = wanted, self._counts.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._counts[wanted] = count  # what is taken stays so: no need to look there again
        self._taken.add(name)
        return name


def cast_target(node: ir.Node) -> ir.DataType | None:
    """Element type that an ONNX Cast casts to.

    None for other nodes, attribute references, and numbers that stand for no type.
    """
    if node.op_type != "Cast" or node.domain not in ("", "ai.onnx"):
        return None
    to = node.attributes.data.get("to")
    return None if to is None or to.is_ref() else element_type(to)


def casts_among(nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """The ONNX Casts of `nodes` that say what they cast to."""
    named = (node for node in nodes if node.op_type == "Cast")
    return [node for node in named if cast_target(node) is not None]


def is_plain_cast(node: ir.Node, dtype: ir.DataType) -> bool:
    """Whether `node` is a Cast to `dtype` with nothing but defaults, spelt out or not."""
    if cast_target(node) != dtype:
        return False
    if len(node.attributes.data) == 1:
        return True
    others = [each for name, each in node.attributes.items() if name != "to"]
    return (
        len(others) == 1
        and others[0].name == "saturate"
        and not others[0].is_ref()
        and others[0].as_int() == 1
    )


def constant_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor that `value` always is; None if it is computed, fed, or may be overridden."""
    if value is None:
        return None
    node = value.producer()
    if node is None:
        is_constant = value.is_initializer() and not value.is_graph_input()
        return value.const_value if is_constant else None
    if node.op_type != "Constant" or node.domain != "":
        return None
    tensor = node.attributes.get("value")
    return None if tensor is None or tensor.is_ref() else tensor.as_tensor()


def numbers_of(value: ir.Value | None, most: int) -> npt.NDArray[Any] | None:
    """The real numbers that `value` always is; None for more than `most`, and for what is none."""
    tensor = constant_of(value)
    if tensor is None or tensor.size > most or formats.of(tensor.dtype).kind in _NO_NUMBERS:
        return None
    return np.asarray(tensor.numpy())


def set_constant(value: ir.Value, tensor: ir.TensorProtocol) -> None:
    """Make `tensor` the content of `value`, an initializer or the result of a Constant node."""
    node = value.producer()
    if node is None:
        value.const_value = tensor
    else:
        node.attributes["value"] = ir.AttrTensor("value", tensor)
    retype(value, tensor.dtype)


def absorb_casts(casts: Mapping[ir.Value, Sequence[ir.Node]]) -> None:
    """Let values take the place of Casts that give the same."""
    gone: dict[ir.Graph, list[ir.Node]] = {}
    for value, absorbed in casts.items():
        for cast in absorbed:
            cast.outputs[0].replace_all_uses_with(value)
            assert isinstance(cast.graph, ir.Graph)
            gone.setdefault(cast.graph, []).append(cast)
    for graph, nodes in gone.items():
        graph.remove(nodes, safe=True)


def take_place(old: ir.Node, nodes: Sequence[ir.Node]) -> None:
    """Put `nodes` in place of `old`, which has one result; the last one gives that now.

    It gets what is known of `old`, but for the name.
    """
    graph, new = old.graph, nodes[-1]
    assert graph is not None
    new.doc_string = old.doc_string
    new.metadata_props.update(old.metadata_props)
    ir.convenience.replace_nodes_and_values(
        graph, old, [old], nodes, [old.outputs[0]], [new.outputs[0]]
    )


def retype(value: ir.Value, dtype: ir.DataType) -> None:
    """Declare another element type for `value` if its type is declared at all."""
    if value.type is not None:
        value.type = ir.TensorType(dtype)


def bypass(value: ir.Value, source: ir.Value) -> bool:
    """Let what reads `value` read `source`, which is the same, and remove the node of `value`.

    A `source` of the same scope takes over the place of `value` among the graph outputs, and its
    name with it.

    Returns:
        Whether that was possible; False if both have to stay, as graph outputs.
    """
    node, graph = value.producer(), value.graph
    assert node is not None
    assert graph is not None
    if not value.is_graph_output():
        value.replace_all_uses_with(source)
        graph.remove(node, safe=True)
        return True
    if source.producer() is None or source.graph is not graph or source.is_graph_output():
        return False
    name = value.name
    value.replace_all_uses_with(source, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    source.name, source.type, source.shape = name, value.type, value.shape
    source.doc_string = value.doc_string
    return True


def move_outputs(
    moves: Mapping[ir.Value, ir.Value], names: Names, kept: Collection[Exit] = ()
) -> None:
    """Let other values be the graph outputs in place of some, under their public names.

    Those that are replaced keep their readers and get new names.

    Args:
        moves: The value to be the output, by the one that is.
        names: Of the whole model.
        kept: Outputs that stay what they are all the same.
    """
    graphs = {value.graph for value in moves}
    for value, replacement in moves.items():
        public = value.name
        value.name = names.fresh(f"{public}_inner")
        replacement.name = public
        replacement.doc_string, value.doc_string = value.doc_string, None
    for graph in graphs:
        assert graph is not None
        outputs = [
            output if (graph, index) in kept else moves.get(output, output)
            for index, output in enumerate(graph.outputs)
        ]
        graph.outputs.clear()
        graph.outputs.extend(outputs)


def new_constant(
    model: ir.Model, value: ir.Value, tensor: ir.TensorProtocol, names: Names
) -> ir.Value:
    """A constant beside `value`, a constant too, that holds `tensor` and bears its name."""
    graph, producer = value.graph, value.producer()
    assert graph is not None
    if producer is None and model.ir_version >= 4:
        constant = ir.Value(name=tensor.name, shape=value.shape, const_value=tensor)
        constant.type = ir.TensorType(tensor.dtype)
        graph.register_initializer(constant)
        return constant
    node = ir.node("Constant", [], {"value": tensor}, name=names.fresh(f"{tensor.name}_constant"))
    node.outputs[0].name = tensor.name
    if producer is None:
        graph.insert_before(graph[0], node)
    else:
        graph.insert_after(producer, node)
    return node.outputs[0]


class Casts:
    """Casts of values, one per value and element type, next to where the value is defined.

    A Cast that the model already has is reused (and moved next to the producer, where it comes
    before every reader). A new one is called after its value: ``x_float16``.

    Attributes:
        names: Of the whole model.
        added: The Casts that were made.
        types: The element types of all values that were made.
    """

    def __init__(self, model: ir.Model, found: Contents | None = None) -> None:
        self.names = Names(model, found)
        self.added: list[ir.Node] = []
        self.types: dict[ir.Value, ir.DataType] = {}
        self._known: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        self._front: dict[ir.Graph, ir.Node] = {}

    def of(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`value` cast to `dtype`, readable wherever `value` is."""
        key = (value, dtype)
        if key not in self._known:
            node = self._existing(value, dtype) or self._new(value, dtype)
            self._place(node, value)
            self._known[key] = node.outputs[0]
        return self._known[key]

    def clip(self, value: ir.Value, lowest: float, highest: float) -> ir.Value:
        """`value` limited to a range, in a Clip right behind its producer."""
        graph = value.graph
        assert graph is not None
        name = self.names.fresh(f"{value.name}_clipped")
        limits = []
        for kind, limit in (("min", lowest), ("max", highest)):
            tensor = ir.tensor(np.array(limit, np.float32), name=self.names.fresh(f"{name}_{kind}"))
            constant = ir.node("Constant", [], {"value": tensor}, name=f"{tensor.name}_constant")
            constant.outputs[0].name = tensor.name
            limits.append(constant)
        operands = [value, *(constant.outputs[0] for constant in limits)]
        node = ir.node("Clip", operands, name=self.names.fresh(f"{name}_clip"))
        node.outputs[0].name, node.outputs[0].shape = name, value.shape
        if value.type is not None:
            node.outputs[0].type = value.type
        self._place(node, value)
        graph.insert_before(node, limits)
        made = (*(limit.outputs[0] for limit in limits), node.outputs[0])
        self.types.update(dict.fromkeys(made, ir.DataType.FLOAT))
        return node.outputs[0]

    def _existing(self, value: ir.Value, dtype: ir.DataType) -> ir.Node | None:
        graph = value.graph
        for node in value.consumers():
            near = node.graph is graph and not node.outputs[0].is_graph_output()
            if near and is_plain_cast(node, dtype):
                assert graph is not None
                graph.remove(node)
                return node
        return None

    def _new(self, value: ir.Value, dtype: ir.DataType) -> ir.Node:
        name = self.names.fresh(f"{value.name}_{formats.of(dtype).name}")
        # Node and Attr, as the shorthand `ir.node` takes most of the time of adding a Cast.
        attributes = [ir.AttrInt64("to", dtype)]
        if dtype in _SATURATING:  # the default, said so that readers need not know
            attributes.append(ir.AttrInt64("saturate", 1))
        node = ir.Node("", "Cast", [value], attributes, name=self.names.fresh(f"{name}_cast"))
        output = node.outputs[0]
        output.name = name
        output.shape = value.shape
        if value.type is not None:
            output.type = ir.TensorType(dtype)
        self.types[output] = dtype
        self.added.append(node)
        return node

    def _place(self, node: ir.Node, value: ir.Value) -> None:
        graph = value.graph
        assert graph is not None
        producer = value.producer()
        anchor = self._front.get(graph) if producer is None else producer
        if anchor is not None:
            graph.insert_after(anchor, node)
        elif len(graph):
            graph.insert_before(graph[0], node)
        else:
            graph.append(node)
        if producer is None:
            self._front[graph] = node
