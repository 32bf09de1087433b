"""Other mixed-precision tools for ONNX, each told which nodes to keep float32 and nothing else.

Graph inputs and outputs keep their types.
"""

import contextlib
import functools
import importlib
import io
import re
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx

__all__ = ["Convert", "available"]

Convert = Callable[[onnx.ModelProto, Collection[str], bool], onnx.ModelProto]
"""Gives a float16 model made of a float32 one, whose named nodes stay float32.

The last argument says whether also those ops stay float32 that the tool keeps by default.
"""

_Adapter = Callable[[ModuleType, onnx.ModelProto, Collection[str], bool], onnx.ModelProto]


def _onnxconverter_common(
    module: ModuleType, model: onnx.ModelProto, kept: Collection[str], by_default: bool
) -> onnx.ModelProto:
    ops = None if by_default else []
    converted: onnx.ModelProto = module.convert_float_to_float16(
        model, keep_io_types=True, op_block_list=ops, node_block_list=list(kept)
    )
    return converted


def _onnxruntime(
    module: ModuleType, model: onnx.ModelProto, kept: Collection[str], by_default: bool
) -> onnx.ModelProto:
    ops = None if by_default else []
    wrapped = importlib.import_module("onnxruntime.transformers.onnx_model").OnnxModel(
        module.convert_float_to_float16(
            model, keep_io_types=True, op_block_list=ops, node_block_list=list(kept)
        )
    )
    wrapped.topological_sort()  # as it does before it saves a model
    converted: onnx.ModelProto = wrapped.model
    return converted


def _autocast(
    module: ModuleType, model: onnx.ModelProto, kept: Collection[str], by_default: bool
) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "source.onnx")
        onnx.save(model, path)
        converted: onnx.ModelProto = module.convert_to_mixed_precision(
            str(path),
            "fp16",
            # Patterns, of which the beginning of a name counts.
            nodes_to_exclude=[f"{re.escape(name)}$" for name in kept],
            # By default it keeps what leaves a range.
            **({} if by_default else {"data_max": np.inf, "init_max": np.inf}),
            keep_io_types=True,
        )
    return converted


_TOOLS: Mapping[str, tuple[str, _Adapter]] = {
    "onnxconverter-common": ("onnxconverter_common.float16", _onnxconverter_common),
    "onnxruntime": ("onnxruntime.transformers.float16", _onnxruntime),
    "AutoCast": ("modelopt.onnx.autocast", _autocast),
}


def available() -> tuple[dict[str, Convert], dict[str, str]]:
    """The tools that are installed, and for each of the others why it cannot be used."""
    found, missing = dict[str, Convert](), dict[str, str]()
    for name, (module, convert) in _TOOLS.items():
        imported = _imported(module)
        if isinstance(imported, ModuleType):
            found[name] = functools.partial(_converted, functools.partial(convert, imported))
        else:
            missing[name] = imported
    return found, missing


def _imported(module: str) -> ModuleType | str:
    """A module, or why there is none."""
    try:
        with _quiet():
            return importlib.import_module(module)
    except ImportError as error:
        return " ".join(str(error).split())


def _converted(
    convert: Convert, model: onnx.ModelProto, kept: Collection[str], by_default: bool
) -> onnx.ModelProto:
    """Give a tool a model of its own, which it may change, and let it talk to nobody."""
    own = onnx.ModelProto()
    own.CopyFrom(model)
    with _quiet():
        return convert(own, kept, by_default)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
