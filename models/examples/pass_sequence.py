"""A sequence of onnx_ir passes: onnxscript's optimizer, then onnxcast, never the other way."""

import sys

import onnx_ir as ir
from onnxscript.optimizer import optimize_ir

import onnxcast


class Optimizer(ir.passes.InPlacePass):
    def call(self, model):
        optimize_ir(model)
        return ir.passes.PassResult(model, modified=True)


policy = onnxcast.make_policy(fp32_cast="all-fp16")
model = ir.load(sys.argv[1])
ir.passes.Sequential(Optimizer(), *onnxcast.build_pipeline(policy, "ascend950"))(model)
assert onnxcast.verify(sys.argv[1], model).ok
ir.save(model, sys.argv[2])
