"""Streams that are full, closed or left by their reader, and signals."""

import errno
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from onnxcast_cli import main

COMMAND = [sys.executable, "-m", "onnxcast_cli"]


class Unwritable(io.StringIO):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _text: str) -> int:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
def test_a_written_model_is_a_success_even_if_nothing_can_be_printed(
    perceptron: Path,
    samples: Path,
    number: int,
    form: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdout", Unwritable(number))
    code = main(["optimize", str(perceptron), "--inputs", str(samples), *form])
    assert code == 0
    assert perceptron.with_name("perceptron.float16.onnx").exists()
    warned = "warning: the results cannot be printed (No space left on device)"
    assert (warned in capsys.readouterr().err) == (number == errno.ENOSPC)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_results_that_cannot_be_printed_are_one_line(
    perceptron: Path,
    form: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdout", Unwritable(errno.ENOSPC))
    assert main(["inspect", str(perceptron), *form]) == 1
    told = capsys.readouterr().err
    assert told == "onnxcast: error: the output or a temporary file: No space left on device\n"


def test_a_reader_that_left_is_no_talk(perceptron: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [*COMMAND, "inspect", str(perceptron)]
    run = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert run.returncode == 1
    assert not run.stderr


def test_talk_that_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Unwritable(errno.ENOSPC))
    assert main(["inspect", str(tmp_path / "none.onnx")]) == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_stay_out_of_every_file(
    perceptron: Path, samples: Path, closed: str
) -> None:
    line = f'exec "$@" {closed}'
    arguments = ["optimize", str(perceptron), "--inputs", str(samples)]
    run = subprocess.run(
        ["sh", "-c", line, "sh", *COMMAND, *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0
    assert not run.stderr
    onnx.checker.check_model(perceptron.with_name("perceptron.float16.onnx"), full_check=True)


ENDLESS = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1] x) => (float[1] y) {
   n = Constant <value = int64 {9223372036854775807}> ()
   go = Constant <value = bool {1}> ()
   y = Loop (n, go, x) <body = step (int64 i, bool on, float[1] a) => (bool on2, float[1] b) {
      on2 = Identity (on)
      b = Relu (a)
   }>
}
"""


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_signal_leaves_no_temporary_folder(
    tmp_path: Path, number: signal.Signals, code: int, told: str
) -> None:
    model = tmp_path / "endless.onnx"
    onnx.save(onnx.parser.parse_model(ENDLESS), model)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run = subprocess.Popen(
        [*COMMAND, "optimize", str(model)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        deadline = time.monotonic() + 60
        while not any(temporary.glob("onnxcast-*/in-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        run.send_signal(number)
        _, text = run.communicate(timeout=60)
    finally:
        run.kill()  # what goes on forever also takes more and more memory
    assert run.returncode == code
    assert text.strip() == f"onnxcast: error: {told}"
    assert not list(temporary.iterdir())
