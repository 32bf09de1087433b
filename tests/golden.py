"""Golden cases: the ONNX text of a model before and after a pass, in ``tests/passes/*.cases``.

A file holds cases like this one; options and the part from ``--`` on may be missing. A case without
that part says that the pass leaves the model alone::

    == title that says what must hold
    # option: value
    <ir_version: 10, opset_import: ["" : 21]>
    agraph (float16[4] x) => (float16[4] y) {
       a = Cast <to = 1> (x)
       y = Cast <to = 10> (a)
    }
    --
    <ir_version: 10, opset_import: ["" : 21]>
    agraph (float16[4] x) => (float16[4] y) {
       y = Identity (x)
    }

Numbers of float16 and bfloat16 tensors are bit patterns in this text. ``pytest --update`` writes
the expected part anew. The option ``run`` says with a reason why a case cannot be executed.
"""

import dataclasses
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as failures

__all__ = ["FOLDER", "Case", "cases", "check", "read", "run", "text_of"]

Array = np.ndarray[Any, np.dtype[Any]]

# onnxruntime lacks a kernel for a type, or does not take an array of it.
_NO_KERNEL = (
    failures.InvalidArgument,
    failures.Fail,  # also of an opset that it does not know yet
    failures.InvalidGraph,
    failures.NotImplemented,
    RuntimeError,
)

FOLDER = Path(__file__).parent / "passes"


@dataclasses.dataclass(frozen=True)
class Case:
    """One case; `after` is "" if nothing may change."""

    path: Path
    title: str
    options: Mapping[str, str]
    before: str
    after: str


def cases(stem: str) -> pytest.MarkDecorator:
    """Parametrise a test's `case` with all cases of ``tests/passes/<stem>.cases``."""
    found = read(stem)
    titles = [case.title for case in found]
    assert len(set(titles)) == len(titles), "two cases have the same title"
    return pytest.mark.parametrize("case", found, ids=titles)


def read(stem: str) -> list[Case]:
    """All cases of ``tests/passes/<stem>.cases``."""
    path = FOLDER / f"{stem}.cases"
    blocks = path.read_text().split("== ")
    return [_parse(path, block) for block in blocks[1:]]


def _parse(path: Path, block: str) -> Case:
    title, _, rest = block.partition("\n")
    lines = rest.splitlines()
    stated = [line[2:] for line in lines if line.startswith("# ")]
    options = {name: value for name, _, value in (line.partition(": ") for line in stated)}
    text = "\n".join(line for line in lines if not line.startswith("# "))
    before, _, after = text.partition("\n--\n")
    return Case(path, title, options, before.strip(), after.strip())


def check(
    case: Case,
    transform: ir.passes.PassBase,
    *,
    update: bool,
    tolerance: float | None = None,
) -> None:
    """Check that `transform` does what `case` says, is truthful, settled, valid and right.

    Args:
        case: The case.
        transform: The pass.
        update: Write what the pass does into the case's file instead of comparing.
        tolerance: Largest error of an output, relative to its largest magnitude; None: same bits.
    """
    model = ir.from_onnx_text(case.before)
    source, before = ir.to_proto(model), text_of(model)
    result = transform(model)
    after = text_of(result.model)

    if update:
        _write(case, "" if after == before else after)
    else:
        assert after == (text_of(ir.from_onnx_text(case.after)) if case.after else before)
    assert result.modified == (after != before), "modified must say whether the text changed"
    made = ir.to_proto(result.model)
    onnx.checker.check_model(made, full_check=True)
    again = transform(ir.from_proto(made))
    assert text_of(again.model) == after, "a second run must change nothing"
    assert not again.modified
    if after != before and "run" not in case.options:
        _compare(source, made, tolerance, seed=zlib.crc32(case.title.encode()))


def text_of(model: ir.Model) -> str:
    """ONNX text of `model`, with value_info for what nothing else in the text declares."""
    proto = ir.to_proto(model)
    _drop_declared_twice(proto.graph)
    return "\n".join(line.rstrip() for line in onnx.printer.to_text(proto).splitlines())


def _drop_declared_twice(graph: onnx.GraphProto) -> None:
    stored = {tensor.name for tensor in graph.initializer}
    kept = [info for info in graph.value_info if info.name not in stored]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    for node in graph.node:
        for attribute in node.attribute:
            _drop_declared_twice(attribute.g)


def _write(case: Case, after: str) -> None:
    blocks = case.path.read_text().split("== ")
    for index, block in enumerate(blocks):
        if block.partition("\n")[0] == case.title:
            kept = block.partition("\n--\n")[0].rstrip()
            blocks[index] = f"{kept}\n--\n{after}\n\n" if after else f"{kept}\n\n"
    case.path.write_text("== ".join(blocks).rstrip() + "\n")


def _compare(
    before: onnx.ModelProto, after: onnx.ModelProto, tolerance: float | None, seed: int
) -> None:
    feeds = _feeds(before, np.random.default_rng(seed), extremes=tolerance is None)
    try:
        wanted, found = (run(model, feeds) for model in (before, after))
    except _NO_KERNEL:
        wanted, found = (_run_slowly(model, feeds) for model in (before, after))
    for output, a, b in zip(before.graph.output, wanted, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), output.name
        if a.dtype.kind in "OUb":  # strings and bool
            np.testing.assert_array_equal(a, b, err_msg=output.name)
        elif tolerance is None:
            _same_bits(a.astype(np.float64), b.astype(np.float64), output.name)
        else:
            error = np.abs(a.astype(np.float64) - b.astype(np.float64))
            assert error.max() <= tolerance * np.abs(a).max(), output.name


def _same_bits(a: Array, b: Array, name: str) -> None:
    np.testing.assert_array_equal(a, b, err_msg=name)
    signs = (np.signbit(a) == np.signbit(b)) | np.isnan(a)
    assert signs.all(), f"{name}: zeros of another sign"


def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs of `model` on onnxruntime's CPU without graph optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs: list[Array] = session.run(None, dict(feeds))
    return outputs


def _run_slowly(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs of `model` by onnx's reference, which lacks no type."""
    outputs = onnx.reference.ReferenceEvaluator(model).run(None, dict(feeds))
    return [np.asarray(output) for output in outputs]


def _feeds(
    model: onnx.ModelProto, generator: np.random.Generator, *, extremes: bool
) -> dict[str, Array]:
    """Random arrays for all inputs; symbolic dimensions are 2, integers may serve as indices."""
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 2 for dim in tensor.shape.dim]
        dtype = ir.DataType(tensor.elem_type).numpy()
        array: Array = generator.standard_normal(shape) * (10.0 if extremes else 1.0)
        if dtype.kind in "iub":
            array = generator.integers(0, 2, shape)
        elif extremes and array.size >= 4:
            array.flat[:4] = np.inf, -0.0, np.nan, 1e-7
        feeds[value.name] = array.astype(dtype)
    return feeds
