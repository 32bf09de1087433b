"""What the op schemas say, at the opset that a scope imports.

A node's *signature* tells for each operand and result which type variable it belongs to (``T``,
``T1``, ``U``, or a fixed type such as ``tensor(int64)``), and which types each variable may take.
Legality in onnxcast comes from here and never from a list of op names.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import onnx
import onnx_ir as ir

from onnxcast.graph.contrib import CONTRIB, CONTRIB_DOMAIN
from onnxcast.graph.walk import nested_graphs

__all__ = ["ONNX_DOMAINS", "Parameter", "Schemas", "Signature", "signature_of", "type_string"]

ONNX_DOMAINS = ("", "ai.onnx")


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One formal operand or result.

    Attributes:
        name: The schema's name of it.
        variable: Its type variable, or a fixed type such as ``tensor(int64)``.
        variadic: Whether it takes all remaining operands or results.
        homogeneous: Whether those must share one type.
    """

    name: str
    variable: str
    variadic: bool
    homogeneous: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """The types that one op takes and gives at one opset.

    Attributes:
        schema: The schema it was read from; None for a row of `onnxcast.graph.contrib`.
        since_version: Opset version of its domain that brought it in this form.
        inputs: Formal operands in order; a variadic one is last.
        outputs: Formal results in order; a variadic one is last.
        allowed: For each type variable the type strings that it may take.
    """

    schema: Any  # onnx.defs.OpSchema, whose type stub lacks what it says about function bodies
    since_version: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    allowed: Mapping[str, frozenset[str]]

    def operand(self, index: int) -> str | None:
        """Type variable of operand `index`; None past the last formal one."""
        return _variable(self.inputs, index)

    def result(self, index: int) -> str | None:
        """Type variable of result `index`; None past the last formal one."""
        return _variable(self.outputs, index)

    def allows(self, variable: str, type_: ir.TypeProtocol) -> bool:
        """Whether `variable` may be `type_` (a heterogeneous operand's index is ignored)."""
        name = variable.partition("@")[0]
        return type_string(type_) in self.allowed.get(name, frozenset((name,)))


def _variable(parameters: tuple[Parameter, ...], index: int) -> str | None:
    if index < len(parameters) and not parameters[index].variadic:
        return parameters[index].variable
    if not parameters or not parameters[-1].variadic:
        return None
    last = parameters[-1]
    # Operands of a heterogeneous variadic parameter share a name, not a type.
    return last.variable if last.homogeneous else f"{last.variable}@{index}"


def type_string(type_: ir.TypeProtocol) -> str:
    """The schema's spelling of a type: ``tensor(float16)``, ``seq(tensor(float))``."""
    if type(type_) is ir.TensorType:  # nearly all; isinstance takes ten times as long here
        return _tensor_string(type_.dtype)
    if isinstance(type_, ir.SequenceType):
        return f"seq({type_string(type_.elem_type)})"
    if isinstance(type_, ir.OptionalType):
        return f"optional({type_string(type_.elem_type)})"
    return f"sparse_{_tensor_string(type_.dtype)}"


@functools.cache
def _tensor_string(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"


@functools.cache
def signature_of(domain: str, op_type: str, version: int) -> Signature | None:
    """Signature of an op at an opset version of its domain; None for an op that nobody knows."""
    if domain == CONTRIB_DOMAIN:
        return _contrib_signature(op_type)
    if domain in ONNX_DOMAINS:
        domain = ""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    return Signature(
        schema=schema,
        since_version=schema.since_version,
        inputs=tuple(_parameter(formal) for formal in schema.inputs),
        outputs=tuple(_parameter(formal) for formal in schema.outputs),
        allowed={
            constraint.type_param_str: frozenset(constraint.allowed_type_strs)
            for constraint in schema.type_constraints
        },
    )


def _contrib_signature(op_type: str) -> Signature | None:
    row = CONTRIB.get(op_type)
    if row is None:
        return None

    def parameters(variables: str) -> tuple[Parameter, ...]:
        return tuple(Parameter("", variable, False, True) for variable in variables.split())

    return Signature(
        schema=None,
        since_version=1,
        inputs=parameters(row.operands),
        outputs=parameters(row.results),
        allowed={"T": frozenset(f"tensor({name})" for name in row.types)},
    )


def _parameter(formal: onnx.defs.OpSchema.FormalParameter) -> Parameter:
    return Parameter(
        name=formal.name,
        variable=formal.type_str,
        variadic=formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic,
        homogeneous=formal.is_homogeneous,
    )


class Schemas:
    """Signatures of the nodes of one model, by the opset each scope imports.

    Subgraphs use the opsets of the graph or function that holds them.
    """

    def __init__(self, model: ir.Model) -> None:
        self._functions = model.functions
        self._main = model.graph
        self._model_opsets = model.opset_imports
        self._function_opsets: dict[ir.Graph, Mapping[str, int]] = {
            function.graph: function.opset_imports for function in model.functions.values()
        }
        self._known: dict[tuple[int, str, str], Signature | None] = {}
        self._model_id = id(self._model_opsets)

    def opsets(self, graph: ir.Graph | None) -> Mapping[str, int]:
        """The opset imports in force in `graph`: a function's own, else the model's."""
        if graph is None or graph is self._main:
            return self._model_opsets
        found = self._function_opsets.get(graph)
        return self._nested_opsets.get(graph, self._model_opsets) if found is None else found

    @functools.cached_property
    def _nested_opsets(self) -> Mapping[ir.Graph, Mapping[str, int]]:
        """Those of graphs inside functions, of which most models have none: found on demand."""
        return {
            graph: opsets
            for body, opsets in self._function_opsets.items()
            for graph in nested_graphs(body)
        }

    def version(self, node: ir.Node) -> int | None:
        """Opset version in force for `node`; None if its domain is not imported."""
        imports = self.opsets(node.graph)
        if node.domain not in ONNX_DOMAINS:
            return imports.get(node.domain)
        return next((imports[name] for name in ONNX_DOMAINS if name in imports), None)

    def is_call(self, node: ir.Node) -> bool:
        """Whether `node` calls a model-local function (which hides an op of the same name)."""
        return bool(self._functions) and node.op_identifier() in self._functions

    def signature(self, node: ir.Node) -> Signature | None:
        """Signature of `node`; None if it is a call or its op is not known."""
        if self.is_call(node):
            return None
        # Most models have no functions, and this is asked for every node.
        imports = id(self.opsets(node.graph)) if self._function_opsets else self._model_id
        key = imports, node.domain, node.op_type
        try:
            return self._known[key]
        except KeyError:
            version = self.version(node)
            found = None if version is None else signature_of(node.domain, node.op_type, version)
            self._known[key] = found
            return found
