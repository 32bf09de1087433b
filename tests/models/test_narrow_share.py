import onnx_ir as ir
import pytest

from onnxcast_models.measuring import narrow_share


def share(text: str) -> float | None:
    header = '<ir_version: 10, opset_import: ["" : 21]>\n'
    found: float | None = narrow_share(ir.from_onnx_text(header + text))
    return found


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("y = MatMul (x, w)", 0.0),
        ("h = Cast <to = 10> (x)  g = MatMul (h, v)  y = Cast <to = 1> (g)", 1.0),
        ("u = Cast <to = 1> (v)  y = MatMul (x, u)", 1.0),
        ("g = Cast <to = 10> (w)  u = Cast <to = 1> (g)  y = MatMul (x, u)", 0.0),
        ("u = Transpose <perm = [1, 0]> (w)  y = MatMul (x, u)", 0.0),
        ("h = MatMul (x, w)  u = Cast <to = 1> (v)  y = MatMul (h, u)", 0.5),
        ("h = MatMul (x, w)  g = MatMul (h, w)  u = Cast <to = 1> (v)  y = MatMul (g, u)", 0.5),
        ("y = Add (x, w)", None),
        ("u = Mul (w, w)  y = MatMul (x, u)", None),
    ],
)
def test_narrow_share_counts_each_weight_once_as_it_is_stored(
    body: str, wanted: float | None
) -> None:
    weights = "float[2,2] w = {1, 2, 3, 4}, float16[2,2] v = {1, 2, 3, 4}"
    assert share(f"agraph (float[2,2] x) => (float[2,2] y) <{weights}> {{ {body} }}") == wanted


def test_narrow_share_sees_weights_that_a_body_reads_from_outside() -> None:
    text = """
    agraph (bool c, float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
       y = If (c) <
          then_branch = yes () => (float[2,2] a) { a = MatMul (x, w) },
          else_branch = no () => (float[2,2] b) { b = Identity (x) }
       >
    }
    """
    assert share(text) == 0.0
