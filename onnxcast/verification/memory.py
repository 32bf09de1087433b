"""Whether there is room to run a model."""

import pathlib
import shutil

import onnx_ir as ir

from onnxcast.files import tensor_slots

__all__ = ["lacking_room"]

_SMALL = 2**28
_FLOAT_BYTES = 4


def lacking_room(model: ir.Model, folder: pathlib.Path) -> str:
    """What there is too little of for a copy of `model` in `folder` that is run; "" if of nothing.

    onnxruntime's CPU holds weights as they are stored and, as it computes in float32, once more in
    that.
    """
    sizes = [
        (slot.tensor.nbytes, slot.tensor.size * _FLOAT_BYTES)
        for slot in tensor_slots(model)
        if slot.tensor.dtype is not ir.DataType.STRING
    ]
    stored = sum(nbytes for nbytes, _ in sizes)
    if stored < _SMALL:
        return ""
    wanted = stored + sum(wide for _, wide in sizes)
    free = _free_memory()
    if free is not None and free < wanted:
        return f"it needs about {_gb(wanted)} of memory, {_gb(free)} are free"
    room = shutil.disk_usage(folder).free
    if room < stored:
        return f"it needs {_gb(stored)} for a copy in {folder}, {_gb(room)} are free"
    return ""


def _free_memory() -> int | None:
    """Bytes that this process may still use; None where the system does not tell."""
    found = [each for each in (_free_in_system(), _free_in_group()) if each is not None]
    return min(found, default=None)


def _free_in_system() -> int | None:
    try:
        lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    known = dict(line.split(":", 1) for line in lines)
    return int(known["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in known else None


def _free_in_group() -> int | None:
    """What a container's limit leaves, by the second version of control groups."""
    group = pathlib.Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = (group / "memory.current").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdecimal() and used.isdecimal() else None


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
