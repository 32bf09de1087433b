"""How many elements and bytes values have, as far as their shapes are known."""

import onnx_ir as ir
import pytest

from onnxcast.graph.shapes import bytes_of, elements


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        (None, 1),
        (ir.Shape([]), 1),
        (ir.Shape([2, 3]), 6),
        (ir.Shape([2, 0]), 0),
        (ir.Shape([2, "n", None]), 2),
        (ir.Shape([-1, 3]), 3),  # some exporters write so that a dimension is not known
    ],
)
def test_a_dimension_that_is_not_known_counts_one(shape: ir.Shape | None, count: int) -> None:
    assert elements(shape) == count


def test_bytes_are_whole() -> None:
    assert bytes_of(ir.Shape([3]), 4) == 2
