"""A pass for Olive (extra ``olive``): what `onnxcast.optimize` does, as a step of a workflow.

Olive finds it by a package configuration, which takes the place of Olive's own::

    olive.workflows.run(workflow, package_config=onnxcast.olive.package_config())

Written as JSON it is for ``olive run --config workflow.json --package-config package.json``. In a
workflow the pass is of the type ``OnnxCast``, behind passes that fold constants or Casts.
"""

import inspect
import json
import logging
from pathlib import Path
from typing import Any

from olive.constants import Precision
from olive.hardware.accelerator import AcceleratorSpec
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.pass_config import BasePassConfig, ParamCategory, PassConfigParam
from olive.search.search_parameter import Categorical

from onnxcast.api import optimize

__all__ = ["OnnxCast", "package_config"]

logger = logging.getLogger(__name__)

_TEXTS = list[str]

_OPTIONS: dict[str, tuple[Any, str]] = {
    "fp32_cast": (str | None, "what is narrowed and to what, in one word"),
    "scope": (str | None, "what is narrowed: all, matmult, inputs or none"),
    "dtype": (str | None, "the narrow format: fp16, bf16, mixed, fp32r or fp8e4"),
    "target": (str | None, "the hardware, its name or the path of a profile"),
    "keep_ops": (_TEXTS, "op types that stay float32"),
    "keep_nodes": (_TEXTS, "names of nodes that stay float32"),
    "narrow_ops": (_TEXTS, "op types that are narrowed whatever they mean"),
    "narrow_nodes": (_TEXTS, "names of nodes that are narrowed whatever they mean"),
    "functions": (str, "what becomes of model-local functions: specialise, inline or keep"),
    "matmul_output": (str, "whether products of matmul-like ops are narrow or wide"),
    "io_types": (str | dict[str, str], "types of inputs and outputs: keep, narrow or by name"),
    "opset": (str | int, "auto, keep or the opset to raise the model to"),
    "inputs": (str | None, "samples for the proof: an .npz, or a folder"),
    "tolerance": (float | None, "largest error that passes"),
    "max_error": (float | dict[str, float] | None, "the error budget"),
    "metric": (str | None, "what the budget is in"),
    "budget_seconds": (float | None, "when to stop looking for nodes to keep wide"),
    "verify": (bool, "whether to prove the result"),
    "repair": (bool, "whether to keep wide what does not verify"),
}
"""Types and meanings of the options of `onnxcast.optimize` that a workflow can give."""

_SEARCHED = ("all-fp16", "matmult-fp16", "all-bf16", "matmult-bf16")
"""The tokens that a search of Olive tries, if the workflow names none."""


class OnnxCast(Pass):
    """Convert a float32 ONNX model to mixed precision and prove that its outputs still match."""

    @classmethod
    def _default_config(cls, accelerator_spec: AcceleratorSpec) -> dict[str, PassConfigParam]:
        del accelerator_spec  # the same for all
        known = inspect.signature(optimize).parameters
        defaults = {name: known[name].default for name in _OPTIONS}
        data = {"inputs": ParamCategory.DATA}
        searched = {"fp32_cast": Categorical(_SEARCHED)}
        return {
            name: PassConfigParam(
                type_=type_,
                default_value=[] if defaults[name] == () else defaults[name],
                category=data.get(name, ParamCategory.NONE),
                search_defaults=searched.get(name),
                description=text,
            )
            for name, (type_, text) in _OPTIONS.items()
        }

    def _run_for_config(
        self, model: ONNXModelHandler, config: BasePassConfig, output_model_path: str
    ) -> ONNXModelHandler:
        options = {name: getattr(config, name) for name in _OPTIONS}
        result = optimize(model.model_path, **options)
        proof = result.report.proof
        logger.info("worst output: %s", None if proof is None else proof.worst)
        path = Path(resolve_onnx_path(output_model_path, Path(model.model_path).name))
        files = result.save(path)
        if len(files) == 1:
            return ONNXModelHandler(model_path=str(path))
        return ONNXModelHandler(model_path=str(path.parent), onnx_file_name=path.name)


def package_config() -> dict[str, Any]:
    """Olive's own package configuration with this pass in it, for JSON."""
    own: dict[str, Any] = json.loads(Path(OlivePackageConfig.get_default_config_path()).read_text())
    own["passes"][OnnxCast.__name__] = {
        "module_path": f"{__name__}.{OnnxCast.__name__}",
        "supported_providers": ["*"],
        "supported_accelerators": ["*"],
        "supported_precisions": [str(each) for each in (Precision.FP16, Precision.BF16)],
        "module_dependencies": ["onnxcast"],
    }
    return own
