"""Small models as files, and ways to break what their jobs run."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

PRODUCT = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n,3] x) => (float[n,3] y) <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
   y = MatMul (x, w)
}
"""

ROUND_TRIP = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n,3] x) => (float[n,3] y) {
   wide = Cast <to = 11> (x)
   back = Cast <to = 1> (wide)
   y = Relu (back)
}
"""

Break = Callable[[str], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models, each with two samples."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name, text in {"product": PRODUCT, "round_trip": ROUND_TRIP}.items():
        onnx.save(onnx.parser.parse_model(text), folder / f"{name}.onnx")
        for k, end in enumerate((".npz", ".1.npz")):
            x = np.random.default_rng(k).standard_normal((2 + k, 3), dtype=np.float32)
            np.savez(folder / f"{name}{end}", x=x)
    return folder


@pytest.fixture
def break_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Break:
    """A function that has Python code run in the process of each job before it begins."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def broken(code: str) -> None:
        guard = "import sys\nif 'onnxcast_models.worker' in sys.orig_argv:\n"
        lines = "".join(f"    {line}\n" for line in code.splitlines())
        (site / "sitecustomize.py").write_text(guard + lines)

    return broken
