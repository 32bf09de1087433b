"""A folder as optimum writes it for a decoder, with the weights of all its models in one file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnx.compose
import torch
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data
from torch import nn

from tests.exports.exporting import export
from tests.exports.networks import Network, network

__all__ = ["DATA", "write_folder"]

DATA = "decoder_model.onnx_data"

_LARGE = 256


class _First(nn.Module):
    """The first step of a decoder: nothing is past."""

    def __init__(self, decoder: nn.Module, past: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.decoder = decoder
        self.empty = [each[:, :, :, :0] for each in past]

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found: tuple[torch.Tensor, ...] = self.decoder(tokens, *self.empty)
        return found


def write_folder(folder: Path) -> Network:
    """Write the three decoders: for the first step, for later ones, and both merged by an If.

    Returns:
        The network of the later steps.
    """
    later = network("decoder", "torchscript")
    first = Network(
        _First(later.module, later.args[1:]),
        later.args[:1],
        later.inputs[:1],
        later.outputs,
        {"tokens": later.free["tokens"]},
    )
    models = {}
    for name, net in {"decoder_model": first, "decoder_with_past_model": later}.items():
        models[name] = onnx.load(export(net, "torchscript", folder / f"{name}.onnx"))
    models["decoder_model_merged"] = _merged(*models.values())
    _share_weights(models, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "decoder"}))
    return later


def _merged(first: onnx.ModelProto, later: onnx.ModelProto) -> onnx.ModelProto:
    """One If between the two, as optimum merges them: weights that are alike are there once."""
    weights: dict[bytes, TensorProto] = {}
    bodies = []
    for prefix, model in (("first_", first), ("later_", later)):
        body = onnx.compose.add_prefix(model, prefix, rename_inputs=False).graph
        names = {}
        for tensor in body.initializer:
            content = bytes(str(tensor.dims), "ascii") + tensor.raw_data
            names[tensor.name] = weights.setdefault(content, tensor).name
        for node in body.node:
            node.input[:] = [names.get(name, name) for name in node.input]
        body.ClearField("initializer")
        body.ClearField("input")
        bodies.append(body)
    outputs = [each.name for each in later.graph.output]
    choice = helper.make_node(
        "If", ["use_cache_branch"], outputs, then_branch=bodies[1], else_branch=bodies[0]
    )
    flag = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])
    graph = helper.make_graph(
        [choice], "merged", [*later.graph.input, flag], later.graph.output, list(weights.values())
    )
    return helper.make_model(graph, opset_imports=later.opset_import, ir_version=later.ir_version)


def _share_weights(models: Mapping[str, onnx.ModelProto], folder: Path) -> None:
    """Let all models read one file, in which each weight is once."""
    places: dict[bytes, int] = {}
    data = bytearray()
    for name, model in models.items():
        for tensor in model.graph.initializer:
            if len(tensor.raw_data) < _LARGE:
                continue
            if tensor.raw_data not in places:
                places[tensor.raw_data] = len(data)
                data += tensor.raw_data
            length = len(tensor.raw_data)
            set_external_data(tensor, DATA, offset=places[tensor.raw_data], length=length)
            tensor.ClearField("raw_data")
        onnx.save(model, folder / f"{name}.onnx")
    (folder / DATA).write_bytes(data)
