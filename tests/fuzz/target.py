"""What is fuzzed: a file is optimised and saved, or refused in one line; nothing else happens."""

import zlib
from pathlib import Path
from typing import Any

from onnxcast.api import optimize  # onnxcast.optimize would import it only when it is called
from onnxcast.errors import OnnxcastError
from onnxcast.files import read_model

__all__ = ["convert"]

# What a file is converted by is chosen by its own bytes, so that a file alone repeats a finding.
_CHOICES: dict[str, tuple[Any, ...]] = {
    "fp32_cast": (
        "all-fp16",
        "all",
        "all-mixed",
        "all-fp8e4",
        "all-fp32r",
        "matmult",
        "matmult-fp8e4",
        "inputs-fp16",
        "none",
    ),
    "target": ("generic", "generic", "ascend910b", "ascend950", "trn1"),
    "functions": ("specialise", "inline", "keep"),
    "io_types": ("keep", "keep", "narrow"),
    "matmul_output": ("narrow", "wide"),
    "cast_folding": ("exact", "exact", "drop-narrowing"),
    "illegal_casts": ("keep", "refuse"),
    "clamp_masks": (False, True),
    "inline_cast": (True, True, False),
    "opset": ("auto", "auto", "keep"),
}

_DATA_BYTES = 4096


def convert(data: bytes, folder: Path) -> str:
    """Convert the model that `data` may be; return why it was refused, "" if it was not.

    Args:
        data: The file.
        folder: Where it is written, and what becomes of it; emptied before.
    """
    for path in folder.iterdir():
        path.unlink()
    (folder / "w.data").write_bytes(bytes(range(256)) * (_DATA_BYTES // 256))
    (folder / "model.onnx").write_bytes(data)
    number, options = zlib.crc32(data), {}
    for name, choices in _CHOICES.items():
        number, index = divmod(number, len(choices))
        options[name] = choices[index]
    try:
        result = optimize(folder / "model.onnx", verify=False, **options)
        files = result.save(folder / "out.onnx")
    except OnnxcastError as error:
        why = str(error)
    else:
        read_model(files[0])
        return ""
    assert "\n" not in why, why
    assert not (folder / "out.onnx").exists()
    return why
