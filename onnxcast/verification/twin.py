"""The twin: a float32 model that rounds exactly where a mixed-precision model would.

Before::

    h = MatMul (x_float16, W)      # float16
    y = Cast <to = 1> (h)

After::

    h_raw = MatMul (x_float16, W)  # float32, holding float16 values
    h_low = Cast <to = 10> (h_raw)
    h = Cast <to = 1> (h_low)
    y = Cast <to = 1> (h)

onnxruntime computes float16 ops in float32 and removes the rounding between them, and lacks
bfloat16 kernels; but it keeps a pair of Casts in a float32 graph. So the twin shows on any CPU what
a device with narrow results and float32 accumulation inside each op computes.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from onnxcast.files import WidenedTensor
from onnxcast.formats import FLOAT32, Format, of
from onnxcast.graph.edit import Names, cast_target
from onnxcast.graph.inlining import inline
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import bodies, main_graphs, main_nodes, op_name, values
from onnxcast.planning import is_marked, marked_format
from onnxcast.policy import Meaning, has_meaning, is_closed
from onnxcast.verification.kernels import cast_choices
from onnxcast.verification.marked import marked_formats, round_marked
from onnxcast.verification.scratch import is_large, stored_wide

__all__ = ["Twin", "build_twin", "has_narrow_values", "inlined", "narrowest_format"]

_Narrow = dict[ir.Value, ir.TypeProtocol]

NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})

# Widened too, but for those that belong to a quantiser.
_NARROWER = frozenset({ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2})

# Attributes that name an element type (ONNX operators.md, com.microsoft's ContribOperators.md).
_TYPE_ATTRIBUTES = (
    "dtype",
    "output_dtype",
    "output_datatype",
    "stash_type",
    "softmax_precision",
)

# Ops with several roundings inside on a device that computes them step by step.
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "Attention"})


@dataclasses.dataclass(frozen=True)
class Twin:
    """A model that shows another's rounding.

    Attributes:
        model: Runs on onnxruntime's CPU; all its tensors that were narrow are float32.
        rounded: How many values are rounded.
        assumed: Ops of many steps for which one rounding, at their end, is assumed, with counts.
    """

    model: ir.Model
    rounded: int
    assumed: dict[str, int]


def has_narrow_values(model: ir.Model) -> bool:
    """Whether the twin of `model` would round anything, in calls of its functions too."""
    model = inlined(model) if model.functions else model
    return bool(_narrow_values(model, ElementTypes(model))) or is_marked(model)


def narrowest_format(model: ir.Model) -> Format:
    """The float format with the fewest significant bits in `model`, in calls of its functions too.

    float32 for a model without floats.
    """
    floats = (of(dtype) for dtype in _element_types(model) if dtype.is_floating_point())
    found = [*floats, *marked_formats(model)]
    return min(found, key=lambda format_: format_.significand, default=FLOAT32)


def build_twin(model: ir.Model) -> Twin:
    """The twin of `model`, which stays as it is.

    Model-local functions are inlined, so that their bodies round too.
    """
    twin = inlined(model)
    types = ElementTypes(twin)
    cast_choices(twin, types)
    narrow = _narrow_values(twin, types)
    assumed = Counter(
        op_name(node)
        for node in main_nodes(twin)
        if _has_steps(node, types) and any(v in narrow or marked_format(v) for v in node.outputs)
    )
    _forget_shapes(twin)
    names = Names(twin)
    rounder = _Rounder(twin, narrow, names)
    for graph in list(main_graphs(twin)):
        rounder.widen_graph(graph)
    rounded = rounder.rounded + round_marked(twin, names)
    return Twin(twin, rounded, dict(sorted(assumed.items())))


def _narrow_values(model: ir.Model, types: ElementTypes) -> _Narrow:
    """The values of `model`, which has no functions, that the twin widens, with their types."""
    quantised = _quantised(model, types)
    return {
        value: type_
        for value in _values(model)
        if (type_ := types.of(value)) is not None
        and (type_.dtype in NARROW or (type_.dtype in _NARROWER and value not in quantised))
    }


def _quantised(model: ir.Model, types: ElementTypes) -> set[ir.Value]:
    """8-bit floats that a quantiser gives or reads, and what is only moved on from them."""
    found: set[ir.Value] = set()
    nodes = list(main_nodes(model))
    for node in (*nodes, *reversed(nodes)):
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        moved = has_meaning(node, Meaning.CARRIER) and not found.isdisjoint(values)
        if moved or has_meaning(node, Meaning.QUANTISING):
            found.update(value for value in values if types.dtype(value) in _NARROWER)
    return found


def _forget_shapes(model: ir.Model) -> None:
    """Drop the declared shapes of inner values: they may be wrong, and nobody needs them.

    onnxruntime forgives a wrong one in the source but not where a Cast repeats it.
    """
    for node in main_nodes(model):
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None


def inlined(model: ir.Model) -> ir.Model:
    """A copy of `model` without functions."""
    copy = model.clone()
    for function in copy.functions.values():
        # Bodies are run at the model's opsets whatever they import, and the checker sees to it
        # that those are compatible; inlining wants them equal.
        known = copy.opset_imports.items()
        imported = {name: version for name, version in known if name in function.opset_imports}
        function.opset_imports.update(imported)
    inline(copy)
    return copy


def _element_types(model: ir.Model) -> set[ir.DataType]:
    model = inlined(model) if model.functions else model
    types = ElementTypes(model)
    known = (types.of(value) for value in _values(model))
    return {type_.dtype for type_ in known if type_ is not None}


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in main_graphs(model):
        yield from values(graph)


def _has_steps(node: ir.Node, types: ElementTypes) -> bool:
    if node.op_type in _RECURRENT:
        return True
    signature = types.schemas.signature(node)
    schema = None if signature is None else signature.schema
    return bool(schema and (schema.has_function or schema.has_context_dependent_function))


class _Rounder:
    def __init__(self, model: ir.Model, narrow: _Narrow, names: Names) -> None:
        self._narrow = narrow
        self._names = names
        self._main = model.graph
        self._is_large = is_large(model)
        self.rounded = 0

    def widen_graph(self, graph: ir.Graph) -> None:
        """Turn what is narrow in `graph` into float32, with a rounding pair at each producer."""
        nodes = list(graph)
        for value in list(graph.initializers.values()):
            if value in self._narrow and value.const_value is not None:
                self._widen_constant(value, value.const_value, nodes)
        if graph is self._main:
            for value in graph.inputs:
                if self._is_tensor(value):
                    self._round(value, nodes[0] if nodes else None)
        for node in nodes:
            self._widen_node(node)
        for value in (*graph.inputs, *graph.initializers.values()):
            self._declare(value)

    def _widen_constant(
        self, value: ir.Value, tensor: ir.TensorProtocol, nodes: list[ir.Node]
    ) -> None:
        """Give float32 numbers to `value`: rounded, or in a large model rounded when it runs."""
        wide = stored_wide(tensor) if self._is_large and value.graph is self._main else None
        if wide is None or not nodes:
            value.const_value = _widened(tensor)
            return
        value.const_value = wide
        self._round(value, nodes[0])
        self.rounded -= 1  # it is rounded already

    def _is_tensor(self, value: ir.Value) -> bool:
        """Whether `value` is narrow, there, and no sequence (its elements are rounded already)."""
        return bool(value.name) and type(self._narrow.get(value)) is ir.TensorType

    def _widen_node(self, node: ir.Node) -> None:
        if node.op_type == "CastLike" and node.outputs[0] in self._narrow:
            # What it is like becomes float32, so it must name its type.
            node.op_type = "Cast"
            node.resize_inputs(1)
            node.attributes["to"] = ir.AttrInt64("to", self._narrow[node.outputs[0]].dtype)
        _widen_attributes(node, any(output in self._narrow for output in node.outputs))
        # Some ops give values that are rounded already, and so do bodies.
        exact = node.op_type == "Constant" or bool(bodies(node))
        for value in node.outputs:
            if self._is_tensor(value) and not (exact or self._is_closed(node, value)):
                self._round(value, None)
            self._declare(value)

    def _is_closed(self, node: ir.Node, value: ir.Value) -> bool:
        """Whether `node` gives the narrow `value` as it is, from operands that are rounded."""
        return is_closed(node, of(self._narrow[value].dtype))

    def _round(self, value: ir.Value, before: ir.Node | None) -> None:
        """Let readers of `value` see it rounded; a result hands its name to the rounded value.

        Args:
            value: A narrow result or graph input.
            before: The first node of the graph, for a graph input.
        """
        graph, producer = value.graph, value.producer()
        assert graph is not None
        assert value.name is not None
        readers = value.uses()
        pair = self._pair(value)
        wide = pair[-1].outputs[0]
        wide.type, wide.shape = _as_float(value.type), value.shape
        for node, index in readers:
            node.replace_input_with(index, wide)
        wide.name = self._names.fresh(f"{value.name}_rounded")
        if producer is not None:
            value.name, wide.name = self._names.fresh(f"{value.name}_raw"), value.name
        if value.is_graph_output():
            for index, output in enumerate(graph.outputs):
                if output is value:
                    graph.outputs[index] = wide
        if producer is not None:
            graph.insert_after(producer, pair)
        elif before is not None:
            graph.insert_before(before, pair)
        else:
            graph.extend(pair)
        self.rounded += 1

    def _pair(self, value: ir.Value) -> list[ir.Node]:
        """Casts of `value` to its narrow type and back; a Cast's own result is narrow already."""
        dtype, producer, nodes = self._narrow[value].dtype, value.producer(), []
        low = value
        if producer is None or cast_target(producer) != dtype:
            nodes.append(ir.node("Cast", [value], {"to": dtype}))
            low = nodes[0].outputs[0]
            low.name = self._names.fresh(f"{value.name}_low")
        nodes.append(ir.node("Cast", [low], {"to": ir.DataType.FLOAT}))
        for node in nodes:
            node.name = self._names.fresh(f"{value.name}_round")
        return nodes

    def _declare(self, value: ir.Value) -> None:
        producer = value.producer()
        cast = producer is not None and cast_target(producer) in NARROW | _NARROWER
        if value in self._narrow and not cast:
            value.type = _as_float(value.type)


def _widen_attributes(node: ir.Node, gives_narrow: bool) -> None:
    for name, attribute in list(node.attributes.items()):
        if attribute.is_ref():
            continue
        if name in _TYPE_ATTRIBUTES and attribute.value in NARROW:
            node.attributes[name] = ir.AttrInt64(name, ir.DataType.FLOAT)
        elif attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype in NARROW or (gives_narrow and tensor.dtype in _NARROWER):
                node.attributes[name] = ir.AttrTensor(name, _widened(tensor))


def _as_float(type_: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    """The same type with float32 elements."""
    if isinstance(type_, ir.SequenceType):
        return ir.SequenceType(_as_float(type_.elem_type) or type_.elem_type)
    if isinstance(type_, ir.OptionalType):
        return ir.OptionalType(_as_float(type_.elem_type) or type_.elem_type)
    return None if type_ is None else ir.TensorType(ir.DataType.FLOAT)


def _widened(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return WidenedTensor(tensor)
