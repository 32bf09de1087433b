"""Samples to run a model on, read from where users keep them."""

import pathlib
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from onnxcast.errors import InputError
from onnxcast.files import is_special
from onnxcast.verification.inputs import InputSpec, check_sample, input_specs
from onnxcast.verification.polygraphy import read_samples
from onnxcast.verification.synthesis import parse_input_shape, random_feeds
from onnxcast.verification.values import Feeds, Value

__all__ = [
    "FeedSource",
    "Feeds",
    "InputSpec",
    "input_specs",
    "load_feeds",
    "load_labelled_feeds",
    "parse_input_shape",
    "random_feeds",
]

FeedSource: TypeAlias = str | pathlib.Path | Mapping[str, Value] | Sequence[Mapping[str, Value]]


def load_feeds(source: FeedSource | None, inputs: Sequence[InputSpec]) -> list[Feeds]:
    """Reads the samples of a source and checks each against the model's inputs.

    Args:
        source: An `.npz` file of one array per input; a directory of such files, taken in the order
            of their names; an ONNX `test_data_set_*` directory, or one that contains several;
            a `.json` file of Polygraphy's; one sample or a list of samples as dicts. None makes up
            one sample by `random_feeds`.
        inputs: What the model asks for. For a type that numpy lacks, such as bfloat16, float32
            is accepted and rounded.

    Returns:
        One dict a sample, in the order of `inputs`.

    Raises:
        InputError: The source cannot be read or holds no sample, or a sample lacks an input, has
            one that the model has not, or one of another element type, rank or fixed size.
    """
    if source is None:
        return random_feeds(inputs)
    return [feeds for feeds, _ in load_labelled_feeds(source, inputs, ())]


def load_labelled_feeds(
    source: FeedSource, inputs: Sequence[InputSpec], labels: Collection[str]
) -> list[tuple[Feeds, dict[str, Value]]]:
    """Reads samples as `load_feeds` does, and apart from them what else they may hold.

    Args:
        source: As for `load_feeds`.
        inputs: What the model asks for.
        labels: Names that a sample may have besides those of inputs.

    Raises:
        InputError: As by `load_feeds`.
    """
    beside = set(labels).difference(spec.name for spec in inputs)
    found = []
    for where, sample in _samples(source, inputs):
        extra = {name: value for name, value in sample.items() if name in beside}
        rest = {name: value for name, value in sample.items() if name not in beside}
        found.append((check_sample(where, rest, inputs), extra))
    return found


def _samples(
    source: FeedSource, inputs: Sequence[InputSpec]
) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Yields what each sample is called in messages, and the sample."""
    if isinstance(source, Mapping):
        yield "the sample", source
    elif isinstance(source, str | pathlib.Path):
        for path in _sample_paths(pathlib.Path(source)):
            if path.suffix == ".json":
                yield from _read_json(path)
            else:
                yield str(path), _read_data_set(path, inputs) if path.is_dir() else _read_npz(path)
    else:
        if not source:
            raise InputError("the list of samples is empty; give at least one sample")
        for index, sample in enumerate(source):
            yield f"sample {index}", sample


def _sample_paths(path: pathlib.Path) -> list[pathlib.Path]:
    """The `.npz` files and data set directories that a path stands for."""
    if not path.exists():
        raise InputError(f"samples {path}: no such file; give an .npz file or a folder of samples")
    if path.is_file() and path.suffix in (".npz", ".json"):
        return [path]
    if not path.is_dir():
        raise InputError(
            f"samples {path}: neither an .npz file, Polygraphy's .json nor a folder; give one of "
            "these"
        )
    try:
        next(path.iterdir(), None)  # `glob` would find nothing where it may not look
    except OSError as error:
        raise _unreadable(path, error) from error
    if any(path.glob("input_*.pb")):
        return [path]
    sets = (each for each in path.glob("test_data_set_*") if each.is_dir())  # not their archives
    paths = sorted(path.glob("*.npz")) or sorted(sets, key=_number)
    if not paths:
        wanted = ".npz files, input_*.pb files or test_data_set_* folders"
        raise InputError(f"samples {path}: none in this folder; wanted are {wanted}")
    return paths


def _number(path: pathlib.Path) -> tuple[int, str]:
    """Orders data_set_2 before data_set_10."""
    digits = re.search(r"(\d+)$", path.stem)
    return (int(digits[1]) if digits else -1, path.name)


def _read_npz(path: pathlib.Path) -> dict[str, Value]:
    _check_regular(path)
    try:
        # Opened here, because numpy leaves open what it cannot read.
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):  # numpy would take it for pickled objects
                raise TypeError("no whole archive of named arrays; save it by numpy.savez")  # noqa: TRY301 - told as below
            stream.seek(0)
            return dict(np.load(stream, allow_pickle=False))
    except Exception as error:  # a damaged file shows in any of a dozen ways
        raise _unreadable(path, error) from error


def _read_json(path: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Value]]]:
    _check_regular(path)
    try:
        samples = read_samples(path)
    except Exception as error:  # a damaged file shows in any of a dozen ways
        raise _unreadable(path, error) from error
    for index, sample in enumerate(samples):
        yield f"{path}, sample {index}", sample


def _to_optional(proto: onnx.OptionalProto) -> Any:
    # onnx's own function takes a typed optional without a value for one of undefined type.
    present = any(field.name.endswith("_value") for field, _ in proto.ListFields())
    return numpy_helper.to_optional(proto) if present else None


_PROTOS: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "tensor": (onnx.TensorProto, numpy_helper.to_array),
    "sequence": (onnx.SequenceProto, numpy_helper.to_list),
    "optional": (onnx.OptionalProto, _to_optional),
}


def _read_data_set(folder: pathlib.Path, inputs: Sequence[InputSpec]) -> dict[str, Value]:
    """Reads `input_N.pb`: by the name it holds if that is an input's, else by position."""
    sample: dict[str, Value] = {}
    names = {spec.name for spec in inputs}
    for path in sorted(folder.glob("input_*.pb"), key=_number):
        position, _ = _number(path)
        if not 0 <= position < len(inputs):
            raise InputError(f"{path} is one too many: the model has {len(inputs)} inputs")
        spec = inputs[position]
        new, convert = _PROTOS[spec.kind]
        proto = new()
        _check_regular(path)
        try:
            proto.ParseFromString(path.read_bytes())
            sample[proto.name if proto.name in names else spec.name] = convert(proto)
        except Exception as error:  # a damaged file shows in any of a dozen ways
            raise _unreadable(path, error) from error
    return sample


def _check_regular(path: pathlib.Path) -> None:
    """Refuses what a read may wait for forever."""
    if is_special(path):
        raise InputError(f"samples {path}: not a regular file; save what it gives to a file first")


def _unreadable(path: pathlib.Path, error: Exception) -> InputError:
    cause = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"samples {path} cannot be read: {cause}")
