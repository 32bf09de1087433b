"""Findings about a node: under its name, and that of its first result."""

import onnx_ir as ir

from onnxcast.diagnostics import Code, Diagnostic

__all__ = ["finding_about"]


def finding_about(node: ir.Node, code: Code, message: str) -> Diagnostic:
    """A finding that names `node` and its first result."""
    result = node.outputs[0].name or ""
    return Diagnostic(code=code, message=message, node=node.name or "", value=result)
