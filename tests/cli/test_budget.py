"""``onnxcast optimize`` with an error budget and with a plan."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxcast_cli import main
from tests.networks import network, sample


@pytest.fixture
def faulty(tmp_path: Path) -> list[str]:
    """Arguments for a model with two planted faults and a sample of it."""
    onnx.save(network(10, [(2, "cancellation"), (6, "cancellation")]), tmp_path / "faulty.onnx")
    np.savez(tmp_path / "sample.npz", x=sample()["x"])
    paths = [str(tmp_path / name) for name in ("faulty.onnx", "sample.npz", "out.onnx")]
    return ["optimize", paths[0], "--dtype", "fp16", "--inputs", paths[1], "-o", paths[2]]


def test_a_budget_and_its_replay(
    faulty: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, again = tmp_path / "report.json", tmp_path / "again.onnx"
    budget = ["--max-error", "y=0.001", "--max-error", "0.1", "--metric", "rms"]
    assert main([*faulty, *budget, "--report", str(report)]) == 0
    text = capsys.readouterr().out
    assert "nodes pinned by" in text
    assert "rms 0.001" in text
    assert json.loads(report.read_text())["search"]["pins"] >= 4
    replay = [faulty[1], "--inputs", faulty[5], "-o", str(again), "--plan", str(report)]
    assert main(["optimize", *replay]) == 0
    assert again.read_bytes() == Path(faulty[7]).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--max-error", "y=no"], 2, "--max-error 'y=no': a number from 0 up is wanted"),
        (["--max-error", "1", "--max-error", "2"], 2, "--max-error for all outputs: given twice"),
        (["--max-error", "z=1"], 2, "max error for 'z': no such output; the outputs are y"),
        (["--max-error", "1", "--metric", "top1"], 2, "the samples have no labels"),
        (["--metric", "rms"], 2, "metric without max_error"),
        (["--max-error", "1", "--no-verify"], 2, " and --max-error: these are for the proof"),
        (["--metric", "rms", "--no-verify"], 2, " and --metric: these are for the proof"),
        (["--budget-seconds", "soon"], 2, "soon"),
        (["--plan", "none.json"], 2, "plan none.json cannot be read"),
        (["--max-error", "0", "--narrow-op", "MatMul"], 1, "output 'y' does not match: relmax"),
    ],
)
def test_one_line_says_what_is_wrong(
    faulty: list[str],
    arguments: list[str],
    code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*faulty, *arguments]) == code
    text = capsys.readouterr().err
    assert told in text
    assert text.count("\n") == 1
    assert not Path(faulty[7]).exists()


SLOW = """
import sys, time
from onnxcast.trials import Trials
from onnxcast_cli import main

plain = Trials.error

def slow(self, pins):
    print("trial", flush=True)
    time.sleep(0.2)
    return plain(self, pins)

Trials.error = slow
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_keeps_the_best_result_so_far(faulty: list[str]) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", SLOW, *faulty, "--max-error", "0.0008"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert run.stdout is not None
        for line in run.stdout:
            if line == "trial\n":
                break
        time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 0, told
    assert "warning: interrupted: this is the best result verified so far, with " in told
    onnx.checker.check_model(onnx.load(faulty[7]), full_check=True)
    assert main(["verify", faulty[1], faulty[7], "--inputs", faulty[5], "--tolerance", "1e-3"]) == 0
