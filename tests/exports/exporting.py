"""The two exporters of torch, without their talk."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tests.exports.networks import Network

__all__ = ["export", "sample_of"]

_OPSET = 17


def export(network: Network, exporter: str, path: Path) -> Any:
    """What an export script holds at its end: the program, or the path that was written."""
    names = {"input_names": list(network.inputs), "output_names": list(network.outputs)}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            return torch.onnx.export(
                network.module,
                network.args,
                dynamic_shapes=_dynamic_shapes(network),
                verbose=False,
                **names,
            )
        torch.onnx.export(
            network.module,
            network.args,
            path,
            dynamo=False,
            opset_version=_OPSET,
            dynamic_axes=network.free,
            **names,
        )
    return path


def _dynamic_shapes(network: Network) -> tuple[Any, ...] | None:
    if not network.free:
        return None
    free = [
        dict.fromkeys(network.free.get(name, {}), torch.export.Dim.DYNAMIC)
        for name in network.inputs
    ]
    return free[0], tuple(free[1:])  # the second argument is all the rest


def sample_of(network: Network) -> dict[str, npt.NDArray[Any]]:
    """What the network was exported with, by name."""
    arrays = (each.numpy() for each in network.args)
    return {name: np.asarray(array) for name, array in zip(network.inputs, arrays, strict=True)}
