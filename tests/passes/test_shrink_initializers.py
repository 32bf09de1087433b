from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnxcast.passes import ShrinkInitializersPass
from onnxcast.passes.shrink_initializers import ShrinkGuard
from tests import golden


def model_of(nodes: str, *, outputs: str = "float16[2] y", inputs: str = "") -> ir.Model:
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 21, "custom" : 1]>\n'
        f"agraph ({inputs}) => ({outputs}) <float[2] w = {{1, 100000}}> {{ {nodes} }}"
    )


HALF = "h = Cast <to = 10> (w) y = Neg (h)"


@pytest.mark.parametrize(
    ("guard", "model"),
    [
        (ShrinkGuard.GRAPH_INPUT, model_of(HALF, inputs="float[2] w")),
        (ShrinkGuard.GRAPH_OUTPUT, model_of(HALF, outputs="float16[2] y, float[2] w")),
        (ShrinkGuard.OPAQUE_READER, model_of(f"{HALF} z = custom.Foo (w)")),
        (ShrinkGuard.READ_WIDE, model_of(f"{HALF} z = Neg (w)")),
        (ShrinkGuard.SEVERAL_FORMATS, model_of(f"{HALF} z = Cast <to = 16> (w)")),
        (ShrinkGuard.OUT_OF_RANGE, model_of(HALF)),
    ],
    ids=lambda value: value.name if isinstance(value, ShrinkGuard) else "",
)
def test_guard_is_told(guard: ShrinkGuard, model: ir.Model) -> None:
    shrink = ShrinkInitializersPass()
    assert not shrink(model).modified
    assert [finding.message for finding in shrink.findings] == [f"w: {guard.value}"]


def tied(folder: Path, readers: str) -> ir.Model:
    """A model whose initializers `v` and `w` are the same bytes of a file."""
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> agraph () => (float16[2] y, float[2] z)'
        f" <float[2] v = {{0, 0}}, float[2] w = {{0, 0}}> {{ {readers} }}"
    )
    (folder / "weights.data").write_bytes(np.array([1, 2], dtype="<f4").tobytes())
    for name in ("v", "w"):
        model.graph.initializers[name].const_value = ir.ExternalTensor(
            "weights.data", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name=name, base_dir=folder
        )
    return model


def test_shared_storage_that_another_reads_wide_stays(tmp_path: Path) -> None:
    model = tied(tmp_path, "h = Cast <to = 10> (w) y = Neg (h) z = Neg (v)")
    before = golden.text_of(model)
    shrink = ShrinkInitializersPass()
    assert not shrink(model).modified
    assert [f.message for f in shrink.findings] == [f"w: {ShrinkGuard.SHARED_STORAGE.value}"]
    assert golden.text_of(model) == before


def test_shared_storage_shrinks_when_all_narrow_it_alike(tmp_path: Path) -> None:
    model = tied(
        tmp_path,
        "h = Cast <to = 10> (w) y = Neg (h) g = Cast <to = 10> (v) z = Cast <to = 1> (g)",
    )
    assert ShrinkInitializersPass()(model).modified
    assert {v.const_value.dtype for v in model.graph.initializers.values() if v.const_value} == {
        ir.DataType.FLOAT16
    }


def test_shared_storage_is_not_stored_in_two_formats(tmp_path: Path) -> None:
    model = tied(
        tmp_path,
        "h = Cast <to = 10> (w) y = Neg (h) g = Cast <to = 16> (v) z = Cast <to = 1> (g)",
    )
    shrink = ShrinkInitializersPass()
    assert not shrink(model).modified


def test_tensor_shrink_adds_up_original_bytes_over_all_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ShrinkInitializersPass, "tensor_shrink", 0)
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> agraph () => (float16[2] y, float[2] z)'
        " <float[2] w = {1, 2}, float[2] kept = {3, 4}>"
        " { h = Cast <to = 10> (w) y = Neg (h) z = Neg (kept) }"
    )
    for count in (1, 2):
        ShrinkInitializersPass()(ir.from_onnx_text(text))
        assert ShrinkInitializersPass.tensor_shrink == count * 8
