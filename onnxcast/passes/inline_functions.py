"""Put the bodies of model-local functions in place of their calls.

Before::

    y = local.act (x)

    act (a) => (b) {
       b = Relu (a)
    }

After::

    y = Relu (x)

Bit-exact. onnx's checker does not hold a function body, nor a call of it, to the schemas of the ops
inside: a model that turns out invalid here is refused, with the function's name.
"""

import onnx
import onnx_ir as ir

from onnxcast.graph.check import check_functions, fault
from onnxcast.graph.inlining import inline, refusal
from onnxcast.graph.opsets import align_functions
from onnxcast.graph.walk import bodies, main_nodes, nested_graphs, op_name

__all__ = ["InlineFunctionsPass"]

_ORIGIN = "onnxcast.function"
_LENGTH = 300


class InlineFunctionsPass(ir.passes.InPlacePass):
    """Inlines all calls; no function is left that is called."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline the calls in `model`.

        Raises:
            InputError: A call has operands or results that its function has not.
            RefusedError: A function or a call of it does not fit otherwise.
        """
        if not model.functions:
            return ir.passes.PassResult(model, False)
        check_functions(model)
        for function in model.functions.values():
            for graph in nested_graphs(function.graph):
                for node in graph:
                    node.meta[_ORIGIN] = _name(function)
        modified = align_functions(model)
        modified |= inline(model)
        why = fault(model, full=False)
        if why:
            raise refusal(_invalid_node(model) or why)
        return ir.passes.PassResult(model, modified)


def _name(function: ir.Function) -> str:
    return f"{function.domain}::{function.name}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_LENGTH]


def _invalid_node(model: ir.Model) -> str:
    """The first node of a function that the checker does not accept, and why; "" if none."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = model.ir_version, dict(model.opset_imports)
    for node in main_nodes(model):
        if _ORIGIN in node.meta and not bodies(node):
            try:
                onnx.checker.check_node(ir.to_proto(node), context)
            except onnx.checker.ValidationError as error:
                return f"{op_name(node)} in function {node.meta[_ORIGIN]}: {_one_line(error)}"
    return ""
