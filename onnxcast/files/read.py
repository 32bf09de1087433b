"""Any of the four kinds of model to one `onnx_ir.Model` that is ours to change."""

__all__ = ["Source", "collector_paused", "read_model", "root_cause"]

import dataclasses
import gc
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
import onnx_ir as ir
from google.protobuf.message import Message  # type: ignore[import-untyped]  # has no stubs

from onnxcast.errors import InputError
from onnxcast.files.aliases import keep_own_declarations
from onnxcast.files.counts import check_counts, stored_bytes
from onnxcast.files.external import check_external_data
from onnxcast.files.left_out import name_left_out
from onnxcast.files.maps import from_proto
from onnxcast.files.names import check_attributes, check_names, check_nesting
from onnxcast.files.protos import parts
from onnxcast.files.shells import shell
from onnxcast.files.slots import tensor_slots
from onnxcast.files.sparse import make_dense
from onnxcast.files.stored import hold_facts
from onnxcast.files.utf8 import check_each_text, check_text
from onnxcast.files.wire import parse_file

logger = logging.getLogger(__name__)

_REASON_LENGTH = 300

_LARGE_INLINE = 2**26
_LARGE_TENSOR = 2**20

_MUCH = 500_000
"""Old objects, as of some 40,000 nodes: all that are kept, and what is dropped of them."""

_FUNCTIONS = 8
"""The IR version from which on a model may have functions."""

_INITIALIZERS_ALONE = 4
"""The IR version from which on an initializer need not be a graph input."""


@dataclasses.dataclass
class Source:
    """A model that was read.

    Attributes:
        model: Ours to change: the caller's model shares at most the numbers of its tensors.
        path: The file it came from, `None` for a model that was in memory.
        holder: The object that held it, if it came in one (`torch.onnx.ONNXProgram`).
    """

    model: ir.Model
    path: Path | None
    holder: object = None


def read_model(source: object) -> Source:
    """Read a model and check it; external data stays on disk and is not read.

    Sparse initializers and sparse constants become dense ones (see `onnxcast.files.sparse`).

    Args:
        source: A path, an `onnx.ModelProto`, an `onnx_ir.Model`, or an object whose `model` is
            one (`torch.onnx.ONNXProgram`). It is never changed.

    Raises:
        InputError: Not one of these, or not a valid model that can be held.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(os.fsdecode(source))
        proto = parse_file(path)
        return Source(_from_proto(proto, path.absolute().parent, path), path)
    if isinstance(source, onnx.ModelProto):
        check_nesting(source, "the ModelProto")
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        return Source(_from_proto(proto, Path.cwd(), None), None)
    if isinstance(source, ir.Model):
        return Source(_cloned(source), None)
    held = getattr(source, "model", None)
    if isinstance(held, ir.Model):
        return Source(_cloned(held), None, source)
    found = f"{type(source).__module__}.{type(source).__qualname__}"
    raise InputError(
        f"a {found} was given; wanted a path, an onnx.ModelProto, an onnx_ir.Model or a "
        "torch.onnx.ONNXProgram; pass one of these"
    )


@contextmanager
def collector_paused(*, keeps: bool = False) -> Iterator[None]:
    """Pause the garbage collector where many objects are made and none are dropped.

    Each of its rounds would walk the whole model: a third of the time of reading 100,000 nodes.

    Args:
        keeps: Whether what is made lives on. Then the collector takes all there is for old, and
            does not walk it as soon as it goes on. Nor does it see when much of it is dropped, so
            that what earlier calls left is collected first, if there is much.
    """
    was_enabled = gc.isenabled()
    if keeps and was_enabled and len(gc.get_objects(generation=2)) > _MUCH:
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if keeps and not gc.get_freeze_count():  # what others have frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _from_proto(proto: onnx.ModelProto, folder: Path, path: Path | None) -> ir.Model:
    shown = "the ModelProto" if path is None else str(path)
    found = parts(proto)
    check_counts(found, shown)
    large = _large_tensors(proto)
    light = _light(proto, large, shown) if large else proto
    check_text(light, shown)
    check_names(found, shown)
    check_attributes(found, shown)
    has_external = check_external_data(found, folder, shown)
    _check(proto, light if large or path is None else os.fspath(path), shown)
    if proto.training_info:
        raise InputError(
            f"{shown}: training_info found; wanted an inference model; delete it "
            "(`del model.training_info[:]`) or export for inference"
        )
    if proto.functions and proto.ir_version < _FUNCTIONS:
        raise InputError(
            f"{shown}: functions found in IR version {proto.ir_version}, which has none and where "
            f"nothing checks them; wanted version {_FUNCTIONS} or later; raise ir_version"
        )
    make_dense(found, str(folder), shown)
    keep_own_declarations(proto, shown)
    try:
        with collector_paused():
            model = from_proto(proto)
    except ir.serde.SerdeError as error:
        raise InputError(
            f"{shown}: onnx_ir cannot hold this model: {_one_line(root_cause(error))}; "
            "take that part out of the model"
        ) from None
    hold_facts(model.graph)
    if has_external:
        for slot in tensor_slots(model):
            if isinstance(slot.tensor, ir.ExternalTensor):
                slot.tensor.base_dir = folder
    name_left_out(model)
    return model


def _large_tensors(proto: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Initializers that are too large to copy; none if all of them together are not."""
    inline = [(_raw_bytes(tensor), tensor) for tensor in proto.graph.initializer]
    if sum(size for size, _ in inline) < _LARGE_INLINE:
        return []
    return [tensor for size, tensor in inline if size >= _LARGE_TENSOR]


def _check(proto: onnx.ModelProto, checked: onnx.ModelProto | str, shown: str) -> None:
    """Check `checked`, which is `proto` itself, as `_light` makes it, or the file it came from."""
    try:
        onnx.checker.check_model(checked)
    except onnx.checker.ValidationError as error:
        if _is_of_ir_version_4(proto):
            logger.warning("%s: read as IR version 4: %s", shown, _one_line(error))
            return
        raise InputError(
            f"{shown}: not a valid ONNX model: {_one_line(error)}; "
            "repair it until onnx.checker.check_model accepts it"
        ) from None
    except ValueError as error:
        # Only a ModelProto in memory can be larger than what the checker can be handed.
        logger.warning("%s: not checked: %s", shown, _one_line(error))


def _light(
    proto: onnx.ModelProto, large: Iterable[onnx.TensorProto], shown: str
) -> onnx.ModelProto:
    """`proto` with `large` initializers as graph inputs: the checker copies all that it is given.

    How many numbers they hold is checked already.

    Raises:
        InputError: Text that cannot be copied or is left out is none.
    """
    for tensor in large:
        check_each_text(tensor, f"{shown}: tensor {tensor.name!r}: ")
    try:
        return _without_large(proto)
    except UnicodeDecodeError:
        check_each_text(proto, f"{shown}: ")
        raise


def _without_large(proto: onnx.ModelProto) -> onnx.ModelProto:
    light = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.name != "graph":
            _copy_field(light, field.name, value)
    for field, value in proto.graph.ListFields():
        if field.name != "initializer":
            _copy_field(light.graph, field.name, value)
    known = {info.name for info in proto.graph.input}
    for tensor in proto.graph.initializer:
        if _raw_bytes(tensor) < _LARGE_TENSOR:
            light.graph.initializer.append(tensor)
        elif tensor.name not in known:
            kind = tensor.name, tensor.data_type, tensor.dims
            light.graph.input.append(onnx.helper.make_tensor_value_info(*kind))
    return light


def _copy_field(to: Message, name: str, value: Any) -> None:
    if isinstance(value, Message):
        getattr(to, name).CopyFrom(value)
    elif isinstance(value, int | float | str | bytes):
        setattr(to, name, value)
    else:
        getattr(to, name).extend(value)


def _raw_bytes(tensor: onnx.TensorProto) -> int:
    return stored_bytes(tensor) if tensor.data_location != onnx.TensorProto.EXTERNAL else 0


def _is_of_ir_version_4(proto: onnx.ModelProto) -> bool:
    """Make a model of IR version 4 out of one that says 3 and has initializers that are no inputs.

    Version 4 allows that, and runtimes take such models whatever they say.
    """
    said = proto.ir_version
    if said >= _INITIALIZERS_ALONE:
        return False
    proto.ir_version = _INITIALIZERS_ALONE
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError:
        proto.ir_version = said
        return False
    return True


def root_cause(error: BaseException) -> BaseException:
    """Return what `error` was first raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _REASON_LENGTH else text[:_REASON_LENGTH] + "..."


def _cloned(model: ir.Model) -> ir.Model:
    """Clone `model`; renaming a value renames its tensor, so each tensor gets its own shell."""
    try:
        with collector_paused():
            clone = model.clone()
    except RuntimeError as error:
        raise InputError(
            f"the model: onnx_ir cannot copy it: {_one_line(root_cause(error))}; "
            "repair that part of the model"
        ) from None
    for scope in (clone.graph, *(function.graph for function in clone.functions.values())):
        for graph in (scope, *scope.subgraphs()):
            results = (value for node in graph for value in node.outputs)
            for value in (*graph.initializers.values(), *results):
                if value.const_value is not None:
                    value.const_value = shell(value.const_value)
    name_left_out(clone)
    return clone
