"""What integers a model takes, told by its graph."""

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.verification.feeds import input_specs, random_feeds

TABLE = "float[5,2] table = {1,2,3,4,5,6,7,8,9,10}, int64[1] one = {1}"


def load(text: str) -> ir.Model:
    header = '<ir_version: 10, opset_import: ["": 21]>'
    return ir.from_proto(onnx.parser.parse_model(header + text))


@pytest.mark.parametrize(
    ("nodes", "bound"),
    [
        ("y = Gather (table, i)", 5),
        ("y = Gather <axis = 1> (table, i)", 2),
        ("y = Gather <axis = -1> (table, i)", 2),
        ("c = Cast <to = 6> (i) u = Unsqueeze (c, one) y = Gather (table, u)", 5),
        ("a = Gather (table, i) b = Gather <axis = 1> (table, i) y = Concat <axis = 0> (a, b)", 2),
        ("y = Gather (x, i)", None),
        ("y = Gather (i, one)", None),
        ("y = Neg (i)", None),
    ],
)
def test_an_index_is_bound_by_the_rows_it_chooses_from(nodes: str, bound: int | None) -> None:
    model = load(f"g (int64[100] i, float[n,2] x) => (y) <{TABLE}> {{ {nodes} }}")
    assert input_specs(model)[0].bound == bound
    [feeds] = random_feeds(input_specs(model))
    drawn = np.asarray(feeds["i"])
    assert drawn.min() == 0
    assert drawn.max() == (1 if bound is None else bound - 1)


def test_an_index_into_one_row_is_zero() -> None:
    model = load("g (int64[9] i) => (y) <float[1,2] table = {1, 2}> { y = Gather (table, i) }")
    [feeds] = random_feeds(input_specs(model))
    assert not np.asarray(feeds["i"]).any()


@pytest.mark.parametrize(
    ("name", "nodes", "length"),
    [
        ("n", "y = ReverseSequence (x, n)", True),
        ("seq_len", "y = Neg (seq_len)", True),
        ("n", "y = Neg (n)", False),
    ],
)
def test_lengths_are_one_so_that_no_sequence_is_empty(name: str, nodes: str, length: bool) -> None:
    model = load(f"g (float[8,4] x, int64[4] {name}) => (y) {{ {nodes} }}")
    assert input_specs(model)[1].length is length
    [feeds] = random_feeds(input_specs(model))
    assert (np.asarray(feeds[name]) == 1).all() == length
