"""Raise a model's opset as far as a number format needs, and no further."""

from collections.abc import Collection, Iterator
from typing import TypeAlias

import onnx
import onnx_ir as ir

from onnxcast.errors import InputError, RefusedError
from onnxcast.files import from_proto, tensor_slots, to_proto
from onnxcast.graph.check import fault
from onnxcast.graph.native import NativeFailure, convert_version
from onnxcast.graph.schemas import ONNX_DOMAINS, signature_of, type_string
from onnxcast.graph.walk import bodies, nested_scopes, values

__all__ = [
    "align_functions",
    "import_onnx",
    "onnx_opset",
    "opset_for_cast",
    "raise_opset",
    "wanted_opset",
]

Window: TypeAlias = tuple[int, int | None]
"""The first and the last opset that will do; None for no last one."""

# Where a model has no ONNX op yet, a Cast may as well know every 16-bit type.
_FIRST_WITH_BFLOAT16 = 13

# onnx.proto: the IR versions that brought these types.
_FIRST_IR_VERSION = {ir.DataType.FLOAT8E4M3FN: 9, ir.DataType.FLOAT8E5M2: 9}


def onnx_opset(model: ir.Model) -> int | None:
    """Opset of the ONNX domain that `model` imports under either of its names; None if none."""
    imports = model.opset_imports
    return next((imports[name] for name in ONNX_DOMAINS if name in imports), None)


def opset_for_cast(dtype: ir.DataType, current: int) -> int:
    """The least opset from `current` on at which Cast takes `dtype` both as source and target.

    Raises:
        RefusedError: The installed onnx knows none.
    """
    wanted, last = ir.TensorType(dtype), onnx.defs.onnx_opset_version()
    if current > last:
        raise RefusedError(
            f"the model is at opset {current}, the installed onnx knows 1 to {last}: install a "
            "newer onnx"
        )
    for version in range(current, last + 1):
        signature = signature_of("", "Cast", version)
        if signature is None:
            continue
        to = signature.schema.attributes["to"].type
        legal = signature.allows("T1", wanted) and signature.allows("T2", wanted)
        if legal and to == onnx.defs.OpSchema.AttrType.INT:
            return version
    raise RefusedError(f"no opset of the installed onnx has a Cast to {type_string(wanted)}")


def wanted_opset(
    asked: str | int,
    current: int | None,
    dtypes: Collection[ir.DataType],
    token: str,
    window: Window = (0, None),
) -> int | None:
    """The opset that a model shall have.

    Args:
        asked: ``auto``, ``keep`` or a number.
        current: The model's; None if it imports none.
        dtypes: The element types that Casts must take; none if there are no Casts to add.
        token: What was asked for, for messages.
        window: The first and the last opset that will do for something else.

    Raises:
        InputError: `asked` is none of these, less than is needed, or beyond the window.
        RefusedError: `asked` is ``keep``, but a later one is needed; or what is needed, or is there
            already, is beyond the window.
    """
    needed = _needed_opset(current, dtypes, token, window)
    if asked == "auto":
        return needed
    if asked == "keep":
        if needed != current:
            raise RefusedError(
                f"{token} needs opset {needed}, the model is at {current} and is to keep it: "
                "allow --opset auto"
            )
        return current
    if not str(asked).isdecimal():
        raise InputError(f"opset {asked!r}: auto, keep or a number is wanted")
    if needed is not None and int(asked) < needed:
        raise InputError(
            f"opset {asked} is less than {token} on this model needs: give {needed} or more"
        )
    if window[1] is not None and int(asked) > window[1]:
        raise InputError(f"opset {asked} is more than the target takes: give {window[1]} or less")
    return int(asked)


def _needed_opset(
    current: int | None, dtypes: Collection[ir.DataType], token: str, window: Window
) -> int | None:
    """The least opset from `current` on with the Casts that are wanted and inside the window."""
    needed, last = current, window[1]
    if dtypes:
        start = current or _FIRST_WITH_BFLOAT16
        needed = max(opset_for_cast(dtype, start) for dtype in dtypes)
    if current is not None and needed is not None:
        needed = max(needed, window[0])
    if needed is not None and last is not None and needed > last:
        found = "the model is at" if needed == current else f"{token} on this model needs"
        raise RefusedError(
            f"{found} opset {needed}, the target takes none after {last}: export the model at "
            f"{last}, or give another target"
        )
    return needed


def import_onnx(model: ir.Model, dtype: ir.DataType) -> None:
    """Let `model`, which may hold ops of other domains only, import an opset with Casts to `dtype`.

    And be of an IR version that knows the type.
    """
    model.ir_version = max(model.ir_version, _FIRST_IR_VERSION.get(dtype, 0))
    if onnx_opset(model) is None:
        model.opset_imports[""] = opset_for_cast(dtype, _FIRST_WITH_BFLOAT16)


def raise_opset(model: ir.Model, version: int) -> ir.Model:
    """`model` at opset `version`, by onnx's version converter; the same object if it is there.

    A model without ONNX ops only gets the import. Model-local functions stay as they are, which is
    refused if the opset changes an op in them.

    Raises:
        InputError: No such opset, or the model is at a later one, which cannot be lowered.
        RefusedError: The converter cannot raise this model, with its cause.
    """
    current = onnx_opset(model)
    if current == version:
        return model
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= version <= newest:
        raise InputError(f"opset {version} wanted: the installed onnx knows 1 to {newest}")
    if current is None:
        model.opset_imports[""] = version  # nothing is there to convert
        return model
    if current > version:
        raise InputError(
            f"opset {version} wanted, the model is at {current}: an opset cannot be lowered; "
            "give a later one or keep it"
        )
    try:
        raised = from_proto(convert_version(to_proto(model), version))
    except NativeFailure as error:
        raise _refusal(model, version, " ".join(str(error).split())[:300]) from None
    _restore(model, raised, version)
    why = fault(raised, full=False)
    if why:
        raise _refusal(model, version, why)
    return raised


def _refusal(model: ir.Model, version: int, why: str) -> RefusedError:
    # The converter leaves function bodies at their opset.
    inline = ", or inline its functions (--functions inline)" if model.functions else ""
    return RefusedError(
        f"opset {version} is needed, the model is at {onnx_opset(model)} and the version converter "
        f"does not raise it ({why}): export it at opset {version}{inline}"
    )


def _restore(model: ir.Model, raised: ir.Model, version: int) -> None:
    """Give `raised` what the converter drops: functions, metadata, folders of external data.

    And take what it adds to the declarations of the graph's inputs and outputs.
    """
    for domain in ONNX_DOMAINS:
        if domain in raised.opset_imports:
            raised.opset_imports[domain] = version
    for identifier, function in model.functions.items():
        raised.functions[identifier] = function.clone()
    raised.metadata_props.update(model.metadata_props)
    interface = (*model.graph.inputs, *model.graph.outputs)
    for value, known in zip((*raised.graph.inputs, *raised.graph.outputs), interface, strict=True):
        value.type, value.shape = known.type, known.shape
    pending = [(model.graph, raised.graph)]
    while pending:
        before, after = pending.pop()
        pending.extend(_restore_graph(before, after))
    folders = {(tensor.name or "", tensor.location): tensor.base_dir for tensor in _external(model)}
    for tensor in _external(raised):
        tensor.base_dir = folders[tensor.name or "", tensor.location]


def _restore_graph(before: ir.Graph, after: ir.Graph) -> Iterator[tuple[ir.Graph, ir.Graph]]:
    """Copy the metadata of one graph; yield the pairs of graphs inside."""
    after.metadata_props.update(before.metadata_props)
    known = {value.name: value for value in values(before)}
    for value in values(after):
        if value.name and value.name in known:
            value.metadata_props.update(known[value.name].metadata_props)
    by_result = {node.outputs[0].name: node for node in before if node.outputs}
    by_name = {node.name: node for node in before if node.name}
    for node in after:
        # Where one node became several, one of them has its name and another its result.
        old = by_result.get(node.outputs[0].name) if node.outputs else None
        if old is None or old.op_type != node.op_type:
            old = by_name.get(node.name or "")
        if old is not None:
            node.metadata_props.update(old.metadata_props)
            yield from zip(bodies(old), bodies(node), strict=True)


def _external(model: ir.Model) -> Iterator[ir.ExternalTensor]:
    """The tensors whose data is in another file."""
    for slot in tensor_slots(model):
        if isinstance(slot.tensor, ir.ExternalTensor):
            yield slot.tensor


def align_functions(model: ir.Model) -> bool:
    """Let functions import the ONNX opset of `model` where their ops are the same at both.

    Returns:
        Whether any imported another.
    """
    wanted, aligned = model.opset_imports.get(""), False
    for function in model.functions.values():
        version = function.opset_imports.get("")
        if wanted is None or version is None or version == wanted:
            continue
        nodes = [node for _, own in nested_scopes(function.graph) for node in own]
        ops = {node.op_type for node in nodes if node.domain == ""}
        if all(_since(op, version) == _since(op, wanted) is not None for op in ops):
            function.opset_imports[""] = wanted
            aligned = True
    return aligned


def _since(op_type: str, version: int) -> int | None:
    """The opset that brought an ONNX op as it is at `version`; None if there is none."""
    signature = signature_of("", op_type, version)
    return None if signature is None else signature.since_version
