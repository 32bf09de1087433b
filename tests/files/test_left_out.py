"""Results that are left out where their number counts are kept, with a name."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnx.reference
import onnx_ir as ir
import pytest

import onnxcast

TEXTS = {
    "If": """y, "" = If (c) <
          then_branch = yes () => (float[4,4] a, float[4,4] b) { a = Neg (x)  b = Relu (x) },
          else_branch = no () => (float[4,4] d, float[4,4] e) { d = Abs (x)  e = Relu (x) }
       >""",
    "Loop": """left_out_1 = Identity (x)
       on = Constant <value = bool {1}> ()
       y, "", "" = Loop (two, on, left_out_1, x, x) <
          body = step (int64 i, bool more, float[4,4] s, float[4,4] t, float[4,4] r)
             => (bool next, float[4,4] u, float[4,4] v, float[4,4] w)
          { next = Identity (more)  u = Add (s, t)  v = Neg (t)  w = Relu (s) }
       >""",
    "Scan": """y, "" = Scan (x, x) <
          num_scan_inputs = 1,
          body = step (float[4,4] s, float[4] row) => (float[4,4] u, float[4] v)
          { u = Add (s, row)  v = Neg (row) }
       >""",
    "Split": """a, "" = Split <axis = 0> (x)
       y = Concat <axis = 0> (a, a)""",
}


@pytest.mark.parametrize("held", [False, True], ids=["proto", "ir"])
@pytest.mark.parametrize("op", TEXTS)
def test_results_that_are_left_out_keep_their_place(op: str, held: bool) -> None:
    text = """<ir_version: 8, opset_import: ["" : 16]>
    agraph (float[4,4] x, bool c) => (float[4,4] y) <int64 two = {2}> { BODY }"""
    model = onnx.parser.parse_model(text.replace("BODY", TEXTS[op]))
    source = ir.from_proto(model) if held else model
    result = onnxcast.optimize(source, fp32_cast="none", verify=False).to_proto()
    onnx.checker.check_model(result, full_check=True)
    feeds = {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "c": np.array(True)}
    [wanted], [found] = (
        onnx.reference.ReferenceEvaluator(each).run(None, feeds) for each in (model, result)
    )
    np.testing.assert_array_equal(found, wanted)
