"""Targets of other packages, by entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

MODULE = """
from onnxcast.formats import BFLOAT16, FLOAT16, FLOAT32, INT64
from onnxcast.targets import NativeCast, Operand, Pair, Target

CHIP = Target(
    name="thirdchip",
    preferred=BFLOAT16,
    casts=(
        NativeCast(FLOAT32, BFLOAT16),
        NativeCast(BFLOAT16, FLOAT32),
        NativeCast(INT64, FLOAT32),
    ),
    operands=(Operand(FLOAT32, None, BFLOAT16, "data sheet"),),
    pairs=(Pair(BFLOAT16, BFLOAT16, FLOAT32, "data sheet"),),
)
NO_TARGET = 7
"""

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x, int64[2,2] n) => (bfloat16[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
    h = MatMul (x, w) b = Cast <to = 16> (h) m = Cast <to = 16> (n) y = Add (b, m)
}"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that holds a package with targets, as an installer leaves it."""
    folder = tmp_path / "site"
    info = folder / "thirdchip-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "thirdchip.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdchip\nVersion: 1.0\n")
    return folder


def register(installed: Path, *entries: str) -> None:
    lines = "\n".join(("[onnxcast.targets]", *entries))
    (installed / "thirdchip-1.0.dist-info" / "entry_points.txt").write_text(lines + "\n")


def onnxcast(installed: Path, *args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "onnxcast_cli", *map(str, args)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )


def test_a_target_of_another_package_works_from_the_command_line(
    installed: Path, tmp_path: Path
) -> None:
    register(installed, "thirdchip = thirdchip:CHIP")
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    out = tmp_path / "out.onnx"
    ran = onnxcast(installed, "optimize", model, "--target", "thirdchip", "-o", out, "--json")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert (report["target"], report["token"]) == ("thirdchip", "all-bf16")
    (chain,) = report["casts"]["chains"]
    assert chain["path"] == ["int64", "fp32", "bf16"]
    assert chain["labels"] == ["double rounding"]
    assert report["casts"]["bytes"] >= chain["bytes"] == 4 * (4 + 2)
    keys = {entry.key: entry.value for entry in onnx.load(out).metadata_props}
    assert keys["onnxcast.target"] == "thirdchip"
    assert keys["onnxcast.target_hash"] == report["target_hash"]
    listed = onnxcast(installed, "targets")
    assert "thirdchip" in listed.stdout
    shown = onnxcast(installed, "targets", "show", "thirdchip", "--json")
    assert json.loads(shown.stdout)["native"]["fp32"] == ["bf16"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("bad = thirdchip:NO_TARGET", "target 'bad' of thirdchip: thirdchip:NO_TARGET is no "),
        ("bad = thirdchip:MISSING", "target 'bad' of thirdchip: AttributeError: "),
        ("bad = thirdchip:CHIP", "target 'bad' of thirdchip: it calls itself 'thirdchip'; give"),
        ("bad = nowhere:CHIP", "target 'bad' of thirdchip: ModuleNotFoundError: "),
        ("trn1 = thirdchip:CHIP", "target 'trn1' of thirdchip: the name is taken; remove the"),
        ("a5 = thirdchip:CHIP", "target 'a5' of thirdchip: the name is taken; remove the"),
    ],
)
def test_a_bad_entry_point_is_one_line(installed: Path, entry: str, said: str) -> None:
    register(installed, entry)
    ran = onnxcast(installed, "targets")
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"onnxcast: error: {said}")
    assert ran.stderr.count("\n") == 1


def test_a_bad_entry_point_is_no_hindrance_to_other_targets(installed: Path) -> None:
    register(installed, "bad = nowhere:CHIP")
    assert onnxcast(installed, "targets", "show", "a5").returncode == 0
