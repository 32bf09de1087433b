"""The short names of number formats that makers of accelerators use: fp32, bf16, fp8e4m3, hf8."""

from onnxcast import formats
from onnxcast.formats import Format

__all__ = ["format_of", "short_name"]

_SHORT = {
    formats.FLOAT64: "fp64",
    formats.FLOAT32: "fp32",
    formats.float32r(): "fp32r",
    formats.FLOAT16: "fp16",
    formats.BFLOAT16: "bf16",
    formats.FLOAT8E4M3FN: "fp8e4m3",
    formats.FLOAT8E4: "fp8e4",
    formats.FLOAT8E5M2: "fp8e5m2",
    formats.HIFLOAT8: "hf8",
    formats.FLOAT4E2M1: "fp4",
}

_BY_SHORT = {name: format_ for format_, name in _SHORT.items()}


def short_name(format_: Format) -> str:
    """The short name of a format; ONNX's name in lower case where there is none."""
    return _SHORT.get(format_, format_.name)


def format_of(name: str) -> Format:
    """The format of a short name, or of one of ours.

    Raises:
        InputError: No format has this name; the text lists those that exist.
    """
    return _BY_SHORT[name] if name in _BY_SHORT else formats.by_name(name)
