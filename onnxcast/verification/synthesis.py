"""Samples made up for a model that came without any."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxcast import formats
from onnxcast.errors import InputError
from onnxcast.formats import Kind
from onnxcast.verification.inputs import InputSpec, format_shape
from onnxcast.verification.values import Array, Feeds, Value

__all__ = ["parse_input_shape", "random_feeds"]

_BATCH_SIZE = 1
_OTHER_SIZE = 8
_HIGHEST_DATUM = 100
_MOST_ELEMENTS = 2**28
_MAY_BE_INDICES = (formats.INT32, formats.INT64)


def random_feeds(
    specs: Sequence[InputSpec],
    *,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] = {},
    samples: int = 1,
) -> list[Feeds]:
    """Makes up samples that most models accept; the same arguments give the same samples.

    A symbolic size is the same wherever its name appears, and `a + b` is the sum of its parts. What
    nobody fixed is 1 on the first axis, which is mostly the batch and in exported models often
    hard-wired, and 8 elsewhere. Floats are standard normal. int32 and int64 may be indices: they
    are below the number of rows that they choose from where the graph tells it, else 0 or 1;
    lengths of sequences are 1. Other integers are data, from 0 to 100. An input with "mask" in its
    name is 0 or 1 with a leading 1, so that no row is masked out entirely. Optional inputs are
    absent.

    Args:
        specs: What the model asks for; inputs that it has a value for are left out.
        seed: Of the generator.
        shapes: Shapes of inputs by name; they also fix the symbolic sizes they stand for.
        samples: How many samples.

    Raises:
        InputError: A shape is for an unknown input, contradicts the model or has what is no size;
            or an input is a sequence, of unknown type or rank, or of more than 2**28 elements.
    """
    for name, shape in shapes.items():
        _check_sizes(name, shape)
    sizes = _sizes(specs, shapes)
    generator = np.random.default_rng(seed)
    wanted = [spec for spec in specs if spec.required]
    return [
        {spec.name: _made_up(spec, shapes.get(spec.name), sizes, generator) for spec in wanted}
        for _ in range(samples)
    ]


def parse_input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Reads `NAME:1,3,224,224`; the name may contain colons.

    Raises:
        InputError: The text is not of this form.
    """
    name, _, sizes = text.rpartition(":")
    if not name or not re.fullmatch(r"[0-9]+(,[0-9]+)*", sizes):
        raise InputError(f"input shape {text!r} is not of the form NAME:1,3,224,224")
    return name, tuple(map(int, sizes.split(",")))


def _check_sizes(name: str, shape: Sequence[object]) -> None:
    if not all(isinstance(size, int | np.integer) and size >= 0 for size in shape):
        raise InputError(
            f"input {name!r}: shape {list(shape)} is given; whole numbers from 0 up are wanted"
        )


def _sizes(specs: Sequence[InputSpec], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The size of each symbolic name: what a given shape says, else by the axis it is first on."""
    sizes = _given_sizes({spec.name: spec for spec in specs}, shapes)
    for spec in specs:
        for axis, size in enumerate(spec.shape or ()):
            if isinstance(size, str) and "+" not in size:
                sizes.setdefault(size, _default_size(axis))
    return sizes


def _given_sizes(
    specs: Mapping[str, InputSpec], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, given in shapes.items():
        if name not in specs:
            known = ", ".join(specs)
            raise InputError(f"a shape is given for {name!r}, no input; the inputs are {known}")
        wanted = specs[name].shape
        if wanted is None:
            continue
        clash = len(given) != len(wanted) or any(
            size != (sizes.setdefault(fixed, size) if isinstance(fixed, str) else fixed)
            for size, fixed in zip(given, wanted, strict=True)
            if fixed is not None
        )
        if clash:
            shown = f"{format_shape(given)} is given, the model wants {format_shape(wanted)}"
            raise InputError(f"input {name!r}: shape {shown}, and one size for each name")
    return sizes


def _default_size(axis: int) -> int:
    return _OTHER_SIZE if axis else _BATCH_SIZE


def _size(size: int | str | None, axis: int, sizes: Mapping[str, int]) -> int:
    if size is None:
        return _default_size(axis)
    if isinstance(size, int):
        return size
    if size in sizes:
        return sizes[size]
    parts = [part.strip() for part in size.split("+")]
    return sum(int(part) if part.isdecimal() else sizes.get(part, _OTHER_SIZE) for part in parts)


def _made_up(
    spec: InputSpec,
    given: tuple[int, ...] | None,
    sizes: Mapping[str, int],
    generator: np.random.Generator,
) -> Value:
    if spec.kind == "optional":
        return None
    if spec.kind == "sequence" or spec.dtype is None:
        kind = "a sequence" if spec.kind == "sequence" else "of unknown type"
        raise InputError(f"input {spec.name!r} is {kind}: no value can be made up, give samples")
    if given is None and spec.shape is None:
        example = f"{spec.name}:1,3,224,224"
        raise InputError(f"input {spec.name!r} has unknown rank: give its shape ({example})")
    shape = given
    if shape is None:
        assert spec.shape is not None
        shape = tuple(_size(size, axis, sizes) for axis, size in enumerate(spec.shape))
    if math.prod(shape) > _MOST_ELEMENTS:
        raise InputError(
            f"input {spec.name!r}: shape {format_shape(shape)} has {math.prod(shape)} elements, at "
            f"most {_MOST_ELEMENTS} are made up; give a smaller shape, or samples"
        )
    values = _drawn(spec, formats.of(spec.dtype), shape, generator)
    return values.astype(str if spec.dtype is ir.DataType.STRING else spec.dtype.numpy())


def _drawn(
    spec: InputSpec,
    format: formats.Format,  # noqa: A002 - the word of this project
    shape: tuple[int, ...],
    generator: np.random.Generator,
) -> Array:
    if format.kind is Kind.STRING:
        return np.asarray(generator.choice(["a", "b"], shape))
    if "mask" in spec.name.lower():
        values = np.asarray(generator.integers(0, 2, shape))
        np.atleast_1d(values)[..., :1] = 1
        return values
    if format.kind in (Kind.FLOAT, Kind.COMPLEX):
        return np.asarray(generator.standard_normal(shape))
    if spec.length:
        return np.ones(shape, np.int64)
    highest = min(_HIGHEST_DATUM, int(format.max))
    if format in _MAY_BE_INDICES:
        highest = 1 if spec.bound is None else spec.bound - 1
    return np.asarray(generator.integers(0, highest + 1, shape))
