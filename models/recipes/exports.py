"""How recipes export: a seeded torch module by either exporter, with its samples."""

__all__ = ["Recipe", "export", "seeded", "two_samples"]

import dataclasses
import inspect
import io
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch

from .built import Array, Built, Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """A module and how it is exported.

    Attributes:
        module: In the state in which it is exported.
        samples: By the names of its arguments, in their order.
        outputs: Names of the results.
        opset: Of the result.
        dynamo: Whether by the exporter that traces Python's bytecode; else by TorchScript's.
        axes: Names of the free dimensions of each input, by their index.
        scripted: Whether control flow is kept: the module is scripted, not traced.
        labels: Those of each sample, if there are any.
    """

    module: torch.nn.Module
    samples: Sequence[Sample]
    outputs: Sequence[str]
    opset: int
    dynamo: bool = False
    axes: Mapping[str, Mapping[int, str]] = dataclasses.field(default_factory=dict)
    scripted: bool = False
    labels: Sequence[Array] = ()


def export(recipe: Recipe) -> Built:
    """Export a module."""
    module = recipe.module.eval()
    first = {name: torch.from_numpy(np.array(each)) for name, each in recipe.samples[0].items()}
    arguments = tuple(first.values())
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exporters warn of themselves
        model = (_by_dynamo if recipe.dynamo else _by_script)(recipe, module, arguments)
    return Built(model, recipe.samples, recipe.labels)


def _by_script(
    recipe: Recipe, module: torch.nn.Module, arguments: tuple[torch.Tensor, ...]
) -> onnx.ModelProto:
    buffer = io.BytesIO()
    torch.onnx.export(
        torch.jit.script(module) if recipe.scripted else module,
        arguments,
        buffer,
        input_names=list(recipe.samples[0]),
        output_names=list(recipe.outputs),
        opset_version=recipe.opset,
        dynamic_axes={name: dict(axes) for name, axes in recipe.axes.items()},
        dynamo=False,
    )
    return onnx.load_from_string(buffer.getvalue())


def _by_dynamo(
    recipe: Recipe, module: torch.nn.Module, arguments: tuple[torch.Tensor, ...]
) -> onnx.ModelProto:
    dynamic = torch.export.Dim.DYNAMIC
    shapes = [dict.fromkeys(recipe.axes.get(name, ()), dynamic) for name in recipe.samples[0]]
    fixed = len(inspect.getfullargspec(module.forward).args) - 1
    nested = (*shapes[:fixed], tuple(shapes[fixed:])) if shapes[fixed:] else tuple(shapes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        program = torch.onnx.export(
            module,
            arguments,
            input_names=list(recipe.samples[0]),
            output_names=list(recipe.outputs),
            opset_version=recipe.opset,
            dynamic_shapes=nested if recipe.axes else None,
            dynamo=True,
            verbose=False,
        )
        program.save(path, external_data=False)
        model = onnx.load(path)
    for node in model.graph.node:  # stack traces with the paths of this machine
        del node.metadata_props[:]
        node.doc_string = ""
    return model


def two_samples(make: Callable[[np.random.Generator, int], Sample]) -> list[Sample]:
    """Sample number 0 and number 1, each of a generator of its own."""
    return [make(np.random.default_rng(k), k) for k in range(2)]


def seeded(make: Callable[[], Recipe], seed: int) -> Callable[[], Built]:
    """A recipe whose random weights are the same each time."""

    def built() -> Built:
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # sums in one order
        torch.backends.mha.set_fastpath_enabled(False)  # it has no ONNX form
        return export(make())

    return built
