"""Samples that Polygraphy saved."""

import base64
import io
import json
import pathlib
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.verification.feeds import input_specs, load_feeds

# An int64 array [3], as polygraphy 0.53.6 wrote it by save_json.
THREE = (
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwg"
    "fSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoDAAAA"
    "AAAAAA=="
)
SPECS = input_specs(
    ir.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21]> g (int64[1] i) => (int64[1] y) '
            "{ y = Identity (i) }"
        )
    )
)


def saved(folder: pathlib.Path, content: Any) -> pathlib.Path:
    path = folder / "inputs.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def encoded(text: str) -> dict[str, str]:
    return {"array": text, "polygraphy_class": "ndarray"}


def test_every_sample_of_a_file_is_read(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, [{"i": encoded(THREE)}, {"i": encoded(THREE)}])
    found = load_feeds(path, SPECS)
    assert [np.asarray(sample["i"]).tolist() for sample in found] == [[3], [3]]


@pytest.mark.parametrize("archive", [False, True])
def test_old_files_hold_latin_1_or_archives(archive: bool, tmp_path: pathlib.Path) -> None:
    stream = io.BytesIO()
    if archive:
        np.savez(stream, np.array([5]))
    else:
        np.save(stream, np.array([5]))
    text = stream.getvalue().decode("latin-1")
    [found] = load_feeds(saved(tmp_path, {"i": encoded(text)}), SPECS)
    assert np.asarray(found["i"]).tolist() == [5]


PICKLED = base64.b64encode(
    b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False,"
).decode()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[",
        [],
        [3],
        {"lst": [["run", []]]},
        [{"i": [3]}],
        [{"i": {"array": 3}}],
        [{"i": {"array": "AAAA"}}],
        [{"i": encoded(PICKLED)}],
    ],
    ids=str,
)
def test_anything_else_is_refused_in_one_line(content: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match=r"inputs\.json cannot be read: ") as caught:
        load_feeds(saved(tmp_path, content), SPECS)
    assert "\n" not in str(caught.value)


def test_a_sample_that_does_not_fit_names_file_and_number(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, [{"i": encoded(THREE)}, {"j": encoded(THREE)}])
    with pytest.raises(InputError, match=r"inputs\.json, sample 1: the model has no input 'j'"):
        load_feeds(path, SPECS)
