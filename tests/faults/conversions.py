"""Convert a small model and hold the result to what every result must hold.

A model is ONNX text. A tensor that its header declares without a value is a weight with seeded
numbers. Whatever the test then looks at, `convert` has checked already: the result is valid under
onnx's full check, its graph inputs and outputs are the source's, a second conversion changes no
byte, and its outputs match the source's under true rounding: the result's narrow ops are computed
by onnx's reference implementation in numpy's float16 and ml_dtypes' bfloat16, not by onnxruntime,
which would compute them in float32. Where that implementation is itself at fault, onnxruntime runs
the result's twin instead.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.inliner
import onnx.parser
import onnx.reference
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import onnxcast
from onnxcast.verification.twin import build_twin

__all__ = ["Converted", "both_formats", "convert", "floats", "parse", "reference"]

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]

both_formats = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])

# Largest error relative to the largest magnitude of an output: a few roundings in a row.
_TOLERANCE = {"float16": 5e-3, "bfloat16": 4e-2}


def floats(values: object) -> Array:
    """A float32 array."""
    return np.array(values, np.float32)


def parse(text: str, *, opset: int = 17, ir_version: int = 8, domains: str = "") -> onnx.ModelProto:
    """The model of `text`, with numbers for the weights that it leaves open.

    Args:
        text: A graph in ONNX text, and functions behind it.
        opset: Of the ONNX domain.
        ir_version: Of the model.
        domains: More imports, as in ``"local" : 1``.
    """
    imports = f'"" : {opset}' + (f", {domains}" if domains else "")
    model = onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]> {text}")
    for graph in _graphs(model.graph):
        _fill(graph)
    return model


def _fill(graph: onnx.GraphProto) -> None:
    made = {name for node in graph.node for name in node.output}
    for info in list(graph.value_info):
        if info.name not in made:
            seed = sum(map(ord, info.name))
            graph.initializer.append(numpy_helper.from_array(_numbers(info, seed), info.name))
            graph.value_info.remove(info)


def _numbers(info: onnx.ValueInfoProto, seed: int) -> Array:
    """Seeded numbers of the type that `info` declares: free dimensions are 3."""
    tensor = info.type.tensor_type
    shape = tuple(dim.dim_value or 3 for dim in tensor.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    random = np.random.default_rng(seed)
    if tensor.elem_type == onnx.TensorProto.BOOL:
        return random.random(shape) > 0.5
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 5, shape).astype(dtype)
    return random.normal(0, 0.5, shape).astype(dtype)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def reference(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """What `model` computes on onnxruntime, with nothing optimised away."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of a result, with the element types that it reads and gives."""

    proto: onnx.NodeProto
    reads: Sequence[str]
    gives: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Converted:
    """A source and what became of it.

    Attributes:
        source: Before.
        model: After.
        dtype: The narrow format that was asked for.
        nodes: The nodes of every scope of `model`, calls inlined.
    """

    source: onnx.ModelProto
    model: onnx.ModelProto
    dtype: str
    nodes: Sequence[Node]

    def named(self, key: str) -> list[Node]:
        """The nodes whose name or op is `key`."""
        found = [node for node in self.nodes if key in (node.proto.name, node.proto.op_type)]
        assert found, f"{key} is gone"
        return found

    def is_narrow(self, *keys: str) -> bool:
        """Whether all nodes with these names or ops give the narrow format."""
        narrow = self.dtype.upper()
        return all(narrow in node.gives for key in keys for node in self.named(key))

    def is_wide(self, *keys: str) -> bool:
        """Whether no node with one of these names or ops reads or gives a narrow float."""
        narrow = {"FLOAT16", "BFLOAT16"}
        return all(
            narrow.isdisjoint((*node.reads, *node.gives))
            for key in keys
            for node in self.named(key)
        )

    def count(self, op: str) -> int:
        """How many nodes are an `op`."""
        return sum(node.proto.op_type == op for node in self.nodes)


def convert(
    source: onnx.ModelProto | str,
    dtype: str,
    *,
    scope: str = "all",
    feeds: Feeds | None = None,
    more: Sequence[Feeds] = (),
    tolerance: float | None = None,
    by: str = "reference",
    **options: Any,
) -> Converted:
    """Convert `source` and check what must hold for every result.

    Args:
        source: A model, or text for `parse`.
        dtype: ``float16`` or ``bfloat16``.
        scope: ``all`` or ``matmult``.
        feeds: Values of graph inputs; seeded ones for those left out.
        more: More such samples.
        tolerance: Largest error relative to the largest magnitude of an output.
        by: What computes the result: ``reference``, ``twin``, or ``nothing`` for random outputs.
        options: For `onnxcast.optimize`.
    """
    model = parse(source) if isinstance(source, str) else source
    before = model.SerializeToString(deterministic=True)
    options = {"scope": scope, "dtype": dtype, "verify": False, **options}
    result = onnxcast.optimize(model, **options).to_proto()
    assert model.SerializeToString(deterministic=True) == before, "the source was changed"
    onnx.checker.check_model(result, full_check=True)
    assert list(result.graph.input) == list(model.graph.input)
    assert list(result.graph.output) == list(model.graph.output)
    again = onnxcast.optimize(result, **options).to_proto()
    assert again.SerializeToString(deterministic=True) == result.SerializeToString(
        deterministic=True
    ), "a second run changes something"
    for sample in (feeds or {}, *more):
        if by != "nothing":
            _compare(model, result, sample, tolerance or _TOLERANCE[dtype], by)
    return Converted(model, result, dtype, list(_nodes(result)))


def _compare(
    model: onnx.ModelProto, result: onnx.ModelProto, feeds: Feeds, tolerance: float, by: str
) -> None:
    initial = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initial]
    fed = {value.name: _numbers(value, seed) for seed, value in enumerate(inputs)} | dict(feeds)
    wanted = reference(model, fed)
    found = _on_twin(result, fed) if by == "twin" else _narrowly(result, fed)
    for info, left, right in zip(model.graph.output, wanted, found, strict=True):
        _close(info.name, np.asarray(left), np.asarray(right), tolerance)


def _narrowly(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    with np.errstate(all="ignore"):
        return list(onnx.reference.ReferenceEvaluator(_flat(model)).run(None, dict(feeds)))


def _on_twin(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    return reference(ir.to_proto(build_twin(ir.from_proto(model)).model), feeds)


def _close(name: str, wanted: Array, found: Array, tolerance: float) -> None:
    assert found.shape == wanted.shape, name
    assert found.dtype == wanted.dtype, name
    if not np.issubdtype(wanted.dtype, np.floating):
        assert np.array_equal(found, wanted), name
        return
    finite = np.isfinite(wanted)
    assert np.array_equal(found[~finite], wanted[~finite], equal_nan=True), name
    if finite.any():
        error = np.abs(found[finite].astype(np.float64) - wanted[finite]).max()
        assert error <= tolerance * max(np.abs(wanted[finite]).max(), 1e-30), f"{name}: {error}"


def _nodes(model: onnx.ModelProto) -> Iterator[Node]:
    inferred = onnx.shape_inference.infer_shapes(_flat(model), check_type=True, strict_mode=True)
    yield from _typed(inferred.graph, {})


def _flat(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def _typed(graph: onnx.GraphProto, outer: Mapping[str, str]) -> Iterator[Node]:
    types = dict(outer)
    for info in (*graph.input, *graph.value_info, *graph.output):
        types[info.name] = _element(info.type)
    for tensor in graph.initializer:
        types[tensor.name] = onnx.TensorProto.DataType.Name(tensor.data_type)
    for node in graph.node:
        yield Node(
            node,
            [types.get(name, "") for name in node.input if name],
            [types.get(name, "") for name in node.output if name],
        )
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _typed(attribute.g, types)


def _element(proto: onnx.TypeProto) -> str:
    for outer in ("sequence_type", "optional_type"):
        if proto.HasField(outer):
            return _element(getattr(proto, outer).elem_type)
    name: str = onnx.TensorProto.DataType.Name(proto.tensor_type.elem_type)
    return name
