"""The element type of every value of every scope, in one linear sweep.

Types follow from schemas, attributes and initializers. A declared type (value_info) is a hint: it
is used where nothing else is known, as for the results of ops without a schema. So is a *learned*
type, which is never declared: what is written must not depend on whether the model was run.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxcast.graph.inference import inferred_results, parse_fixed
from onnxcast.graph.schemas import Schemas, Signature
from onnxcast.graph.walk import bodies

__all__ = ["ElementTypes", "element_type", "learn_type"]

FLOAT = ir.TensorType(ir.DataType.FLOAT)
INT64 = ir.TensorType(ir.DataType.INT64)
BOOL = ir.TensorType(ir.DataType.BOOL)
STRING = ir.TensorType(ir.DataType.STRING)

# A Constant's value is read from its attribute: handing a weight to onnx's inference would copy it.
_CONSTANT_TYPES: Mapping[str, ir.TypeProtocol] = {
    "value_float": FLOAT,
    "value_floats": FLOAT,
    "value_int": INT64,
    "value_ints": INT64,
    "value_string": STRING,
    "value_strings": STRING,
}

_BY_NUMBER = {int(each): each for each in ir.DataType if each is not ir.DataType.UNDEFINED}

_LEARNED = "onnxcast.learned_type"

_Types = dict[ir.Value, ir.TypeProtocol]

# Per result: operands that share its type, and its type where that is fixed.
_Sources = list[tuple[tuple[int, ...], ir.TypeProtocol | None]]


@dataclasses.dataclass(frozen=True)
class _Scope:
    """What a sweep of one function body or main graph works on.

    Attributes:
        types: Filled by the sweep.
        attributes: The call's attributes, which references in a body resolve to.
    """

    types: _Types
    attributes: Mapping[str, ir.Attr] = dataclasses.field(default_factory=dict)


def element_type(attribute: ir.Attr) -> ir.DataType | None:
    """The element type that an attribute such as a Cast's ``to`` names; None if it names none."""
    return _BY_NUMBER.get(attribute.value) if attribute.type is ir.AttributeType.INT else None


def learn_type(value: ir.Value, type_: ir.TypeProtocol) -> None:
    """Let `ElementTypes` know the type of a result that nothing declares and no schema tells.

    It lasts as long as the value and its clones, and is not written.
    """
    value.meta[_LEARNED] = type_


class ElementTypes:
    """Types of all values of a model as it stands now.

    Args:
        model: The model.
        in_functions: Whether values inside function bodies have a type: that which they have in
            every call. Else they have none, and only the results of calls are typed.
    """

    def __init__(self, model: ir.Model, *, in_functions: bool = False) -> None:
        self._functions = model.functions
        self.schemas = Schemas(model)
        scope = _Scope({})
        self._types = scope.types
        self._sources: dict[tuple[int, int, int], _Sources] = {}
        self._rules: dict[tuple[int, str, str, int, int], tuple[Signature, _Sources]] = {}
        self._calls: dict[tuple[object, ...], list[ir.TypeProtocol | None]] = {}
        self._in_calls: dict[ir.OperatorIdentifier, list[_Types]] = {}
        self._sweep(model.graph, scope)
        self._outside = self._types
        if in_functions and self._in_calls:
            self._types = dict(self._outside)
            for calls in self._in_calls.values():
                self._types.update(_agreed(calls))

    def outside(self) -> "ElementTypes":
        """These as if `in_functions` had not been asked for."""
        outside = copy.copy(self)
        outside._types = self._outside
        return outside

    def changed(self, model: ir.Model, dtypes: Mapping[ir.Value, ir.DataType]) -> "ElementTypes":
        """The types of `model` after some values became tensors of other element types, or came.

        It has no functions: other values may follow those in them.
        """
        assert not model.functions
        after = copy.copy(self)
        after.schemas = Schemas(model)
        types = {dtype: ir.TensorType(dtype) for dtype in set(dtypes.values())}
        after._types = {**self._types, **{value: types[each] for value, each in dtypes.items()}}
        after._outside = after._types
        return after

    def of(self, value: ir.Value) -> ir.TypeProtocol | None:
        """Type of `value`; None if nothing tells it."""
        return self._types.get(value)

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Element type of a dense tensor; None for sequences, optionals and unknown types."""
        type_ = None if value is None else self._types.get(value)
        return type_.dtype if type(type_) is ir.TensorType else None

    def _sweep(self, graph: ir.Graph, scope: _Scope) -> None:
        types, rules = scope.types, self._rules
        opsets = id(self.schemas.opsets(graph))
        _note_given(graph, types)
        for node in graph:
            inputs, outputs = node.inputs, node.outputs
            rule = rules.get((opsets, node.domain, node.op_type, len(inputs), len(outputs)))
            if rule is None or node.overload:  # which may be a function's
                results = self._results(node, scope)
            else:
                results = self._by_sources(node, *rule, scope)
            for output, type_ in zip(outputs, results, strict=True):
                known = type_ or output.type or output.meta.get(_LEARNED)
                if known is not None:
                    types[output] = known

    def _results(self, node: ir.Node, scope: _Scope) -> Sequence[ir.TypeProtocol | None]:
        """Of an op that is seen first, or that its schema alone tells too little of."""
        if self._functions and self.schemas.is_call(node):
            return self._call(node, scope)
        inner = bodies(node) if node.attributes.data else []
        signature = self.schemas.signature(node)
        if signature is None:
            for body in inner:  # how it lines up with the node is not known
                self._sweep(body, scope)
            return [None] * len(node.outputs)
        if inner:
            return self._control_flow(node, inner, scope)
        if node.op_type == "Constant":
            return [_constant_type(node, scope)]
        if node.op_type == "Cast" and (to := _cast_type(node, scope)) is not None:
            return [to]
        return self._by_schema(node, signature, scope)

    def _by_schema(
        self, node: ir.Node, signature: Signature, scope: _Scope
    ) -> list[ir.TypeProtocol | None]:
        operands, results = len(node.inputs), len(node.outputs)
        key = id(signature), operands, results
        if key not in self._sources:
            self._sources[key] = _sources(signature, operands, results)
        if node.op_type != "Cast":
            opsets = id(self.schemas.opsets(node.graph))
            rule = signature, self._sources[key]
            self._rules[opsets, node.domain, node.op_type, operands, results] = rule
        return self._by_sources(node, signature, self._sources[key], scope)

    def _by_sources(
        self, node: ir.Node, signature: Signature, sources: _Sources, scope: _Scope
    ) -> list[ir.TypeProtocol | None]:
        """Results have the type of the first known operand that must share it."""
        inputs, types = node.inputs, scope.types
        results, complete = [], True
        for operands, fixed in sources:
            type_ = fixed
            for index in operands:
                value = inputs[index]
                if value is not None and value in types:
                    type_ = types[value]
                    break
            complete = complete and type_ is not None
            results.append(type_)
        if complete:
            return results
        inferred = _inferred(node, signature, scope)
        return [known or type_ for known, type_ in zip(results, inferred, strict=True)]

    def _control_flow(
        self, node: ir.Node, inner: Sequence[ir.Graph], scope: _Scope
    ) -> list[ir.TypeProtocol | None]:
        """If, Loop, Scan, SequenceMap: operands and results line up with a body's, last to last."""
        results: list[ir.TypeProtocol | None] = [None] * len(node.outputs)
        for body in inner:
            self._enter(node, body, scope)
            self._sweep(body, scope)
            offset = len(body.outputs) - len(node.outputs)
            for index, known in enumerate(results):
                if known is None and 0 <= index + offset < len(body.outputs):
                    results[index] = scope.types.get(body.outputs[index + offset])
        if node.op_type == "SequenceMap":
            return [None if type_ is None else ir.SequenceType(type_) for type_ in results]
        return results

    def _enter(self, node: ir.Node, body: ir.Graph, scope: _Scope) -> None:
        """Give the inputs of `body` the types of the operands that `node` hands in."""
        operands = [None if value is None else scope.types.get(value) for value in node.inputs]
        if node.op_type == "Loop":
            # An omitted trip count or condition is still an input of the body.
            operands[:2] = [INT64, BOOL]
        elif node.op_type == "SequenceMap":
            operands = [t.elem_type if isinstance(t, ir.SequenceType) else t for t in operands]
        offset = len(operands) - len(body.inputs)
        for index, value in enumerate(body.inputs):
            type_ = operands[index + offset] if index + offset >= 0 else None
            if type_ is not None:
                scope.types[value] = type_

    def _call(self, node: ir.Node, scope: _Scope) -> Sequence[ir.TypeProtocol | None]:
        function = self._functions[node.op_identifier()]
        attributes = {
            name: resolved
            for name, attribute in (*function.attributes.items(), *node.attributes.items())
            if (resolved := _resolve(attribute, scope)) is not None
        }
        operands = [None if value is None else scope.types.get(value) for value in node.inputs]
        key = (node.op_identifier(), *map(str, operands), *map(str, attributes.values()))
        if key not in self._calls:
            self._calls[key] = [None] * len(node.outputs)  # a recursive call ends here
            inner = _Scope({}, attributes)
            for value, type_ in zip(function.inputs, operands, strict=False):
                if type_ is not None:
                    inner.types[value] = type_
            self._sweep(function.graph, inner)
            self._calls[key] = [inner.types.get(value) for value in function.outputs]
            self._in_calls.setdefault(node.op_identifier(), []).append(inner.types)
        results = self._calls[key]
        return [*results, *[None] * len(node.outputs)][: len(node.outputs)]


def _note_given(graph: ir.Graph, types: _Types) -> None:
    """Note what is fed to `graph` or stored in it."""
    for value in graph.inputs:
        if value not in types and value.type is not None:
            types[value] = value.type
    for value in graph.initializers.values():
        if value.const_value is not None:
            types[value] = ir.TensorType(value.const_value.dtype)


def _agreed(calls: Sequence[_Types]) -> _Types:
    """What is the same in all of `calls`."""
    first, *others = calls
    return {
        value: type_
        for value, type_ in first.items()
        if all(types.get(value) == type_ for types in others)
    }


def _resolve(attribute: ir.Attr, scope: _Scope) -> ir.Attr | None:
    """The attribute itself, or what a reference to a function's attribute stands for."""
    if not attribute.is_ref():
        return attribute if attribute.value is not None else None
    target = scope.attributes.get(attribute.ref_attr_name or "")
    return None if target is None else ir.Attr(attribute.name, target.type, target.value)


def _constant_type(node: ir.Node, scope: _Scope) -> ir.TypeProtocol | None:
    for name, attribute in node.attributes.items():
        resolved = _resolve(attribute, scope)
        if resolved is None:
            continue
        if name == "value":
            return ir.TensorType(resolved.as_tensor().dtype)
        if name == "sparse_value":
            return ir.TensorType(ir.DataType(resolved.value.values.data_type))
        if name in _CONSTANT_TYPES:
            return _CONSTANT_TYPES[name]
    return None


def _cast_type(node: ir.Node, scope: _Scope) -> ir.TypeProtocol | None:
    """What a Cast gives, whatever it is given."""
    attribute = node.attributes.data.get("to")
    resolved = None if attribute is None else _resolve(attribute, scope)
    dtype = None if resolved is None else element_type(resolved)
    return None if dtype is None else ir.TensorType(dtype)


def _sources(signature: Signature, operands: int, results: int) -> _Sources:
    """For each result the operands that have its type, and the type that it has in any case."""
    found: _Sources = []
    for index in range(results):
        variable = signature.result(index)
        if variable is None:
            found.append(((), None))
            continue
        same = (k for k in range(operands) if signature.operand(k) == variable)
        found.append((tuple(same), parse_fixed(variable)))
    return found


def _inferred(node: ir.Node, signature: Signature, scope: _Scope) -> list[ir.TypeProtocol | None]:
    operands = [None if value is None else scope.types.get(value) for value in node.inputs]
    resolved = (_resolve(attribute, scope) for attribute in node.attributes.values())
    attributes = [attribute for attribute in resolved if attribute is not None]
    found = inferred_results(node, signature, operands, attributes)
    return [None] * len(node.outputs) if found is None else found
