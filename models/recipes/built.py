"""What building a model gives, and how builders write it: ONNX text, weights, seeded samples."""

__all__ = ["Array", "Built", "Sample", "build", "normal"]

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
Sample = Mapping[str, Array]

_SAMPLES = 2


@dataclasses.dataclass(frozen=True)
class Built:
    """A model with what it is run on.

    Attributes:
        model: The model.
        samples: It is converted on the first and tried on the others.
        labels: Those of each sample, if there are any.
    """

    model: onnx.ModelProto
    samples: Sequence[Sample]
    labels: Sequence[Array] = ()


def build(
    text: str,
    weights: Mapping[str, Array],
    sample: Callable[[np.random.Generator, int], Sample],
    *,
    opset: int = 17,
    ir_version: int = 8,
    domains: str = "",
) -> Built:
    """A model of ONNX text.

    Args:
        text: The graph, and functions behind it.
        weights: Its initializers.
        sample: Makes sample number k from a generator of its own.
        opset: Of the ONNX domain.
        ir_version: Of the model.
        domains: More opset imports, each with a comma before it.
    """
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}{domains}]>\n'
    model = onnx.parser.parse_model(head + text)
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    onnx.checker.check_model(model)
    return Built(model, [sample(np.random.default_rng(1000 + k), k) for k in range(_SAMPLES)])


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normally distributed float32 numbers."""
    return (scale * rng.standard_normal(shape)).astype(np.float32)
