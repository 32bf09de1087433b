"""Other mixed-precision tools for ONNX, each told which nodes to keep float32 and nothing else.

Graph inputs and outputs keep their types.
"""

import contextlib
import importlib
import io
import re
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import onnx

__all__ = ["Convert", "available"]


class Convert(Protocol):
    """Makes a float16 model of a float32 one."""

    def __call__(
        self, model: onnx.ModelProto, kept: Collection[str], by_default: bool
    ) -> onnx.ModelProto:
        """Convert.

        Args:
            model: It is left as it is.
            kept: Names of nodes that stay float32.
            by_default: Whether also those ops stay float32 that the tool keeps by default.
        """


_Adapter = Callable[[ModuleType, onnx.ModelProto, Collection[str], bool], onnx.ModelProto]


def _onnxconverter_common(
    module: ModuleType, model: onnx.ModelProto, kept: Collection[str], by_default: bool
) -> onnx.ModelProto:
    ops: list[str] | None = None if by_default else []
    converted: onnx.ModelProto = module.convert_float_to_float16(
        model, keep_io_types=True, op_block_list=ops, node_block_list=list(kept)
    )
    return converted


def _onnxruntime(
    module: ModuleType, model: onnx.ModelProto, kept: Collection[str], by_default: bool
) -> onnx.ModelProto:
    ops: list[str] | None = None if by_default else []
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
    for name, (module, adapter) in _TOOLS.items():
        imported = _imported(module)
        if isinstance(imported, ModuleType):
            found[name] = _apart(imported, adapter)
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


def _apart(module: ModuleType, adapter: _Adapter) -> Convert:
    """A tool that works on a model of its own, which it may change, and talks to nobody."""

    def convert(model: onnx.ModelProto, kept: Collection[str], by_default: bool) -> onnx.ModelProto:
        own = onnx.ModelProto()
        own.CopyFrom(model)
        with _quiet():
            return adapter(module, own, kept, by_default)

    return convert


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
