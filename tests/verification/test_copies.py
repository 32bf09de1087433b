"""Nodes found again in a copy without functions."""

import onnx_ir as ir

from onnxcast.verification.copies import positioned


def test_what_a_file_says_of_positions_means_nothing() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[2] x) => (float[2] y) { a = Exp (x) y = Neg (a) }"""
    )
    first, second = model.graph
    for node in (first, second):
        node.metadata_props["onnxcast.position"] = "nowhere"
    copy, found = positioned(model, [second])
    assert found == [(copy.graph[1], 0)]
