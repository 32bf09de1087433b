import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest

from onnxcast.verification import worker as worker_module
from onnxcast.verification.session import RuntimeFailure, Worker

HEADER = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>'
IDENTITY = "g (float[N] x) => (float[N] y) { y = Identity (x) }"
ENDLESS = """g (float[1] x) => (float[1] y) {
    count = Constant <value = int64 {1000000000000}> ()
    true = Constant <value = bool {1}> ()
    y = Loop <body = body (int64 i, bool go, float[1] a) => (bool same, float[1] b) {
        same = Identity (go)
        b = Neg (a)
    }> (count, true, x)
}"""
ONE = {"x": np.ones(1, np.float32)}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def save(folder: pathlib.Path, graph: str) -> pathlib.Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEADER + graph), path)
    return path


def kill_soon(worker: Worker) -> None:
    def kill() -> None:
        while worker.pid is None:
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(worker.pid, signal.SIGSEGV)

    threading.Thread(target=kill).start()


def test_several_samples_run_in_one_session(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(tmp_path, "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(x) }")
    samples = [{"x": np.full(size, -size, np.float32)} for size in (1, 2, 3)]
    results = worker.run(model, samples, level="disable_all")
    assert [list(result) for result in results] == [["y", "z"]] * 3
    for size, result in zip((1, 2, 3), results, strict=True):
        np.testing.assert_array_equal(np.asarray(result["y"]), np.full(size, size, np.float32))


def test_a_session_is_kept_until_its_file_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []
    real = worker_module._session

    def counted(model: str, level: str) -> object:
        made.append((model, level))
        return real(model, level)

    monkeypatch.setattr(worker_module, "_session", counted)
    sessions, path = worker_module.Sessions(), save(tmp_path, IDENTITY)
    first, _ = sessions.get(str(path), "disable_all")
    assert sessions.get(str(path), "disable_all")[0] is first
    assert sessions.get(str(path), "default")[0] is not first
    # Same path and size, other content.
    save(tmp_path, IDENTITY.replace("(float[N] y)", "(float[N] z)").replace("y =", "z ="))
    os.utime(path, ns=(0, 0))
    second, _ = sessions.get(str(path), "default")
    assert [value.name for value in second.get_outputs()] == ["z"]
    assert made == [(str(path), level) for level in ("disable_all", "default", "default")]


def test_a_file_that_does_not_load_is_tried_again(tmp_path: pathlib.Path) -> None:
    path, sessions = tmp_path / "model.onnx", worker_module.Sessions()
    request: dict[str, Any] = {"model": str(path), "level": "disable_all", "outputs": None}
    request |= {"feeds": [], "out": []}
    path.write_bytes(b"no model")
    assert [worker_module.answer(request, sessions)["kind"] for _ in range(2)] == ["load"] * 2
    save(tmp_path, IDENTITY)
    assert worker_module.answer(request, sessions)["outputs"] == ["y"]


def test_the_child_sees_that_a_file_has_changed(worker: Worker, tmp_path: pathlib.Path) -> None:
    for op, wanted in (("Neg", -1), ("Abs", 1), ("Neg", -1)):
        path = save(tmp_path, f"g (float[N] x) => (float[N] y) {{ y = {op} (x) }}")
        for _ in range(2):
            [result] = worker.run(path, [ONE], level="disable_all")
            assert np.asarray(result["y"]).tolist() == [wanted]


def test_only_the_outputs_asked_for_are_returned(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(tmp_path, "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(x) }")
    [result] = worker.run(model, [ONE], level="default", outputs=["z"])
    assert list(result) == ["z"]


def test_sequences_optionals_and_strings_pass(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(
        tmp_path,
        """g (seq(float[N]) s, optional(float[N]) o, string[2] t)
        => (seq(float[N]) s2, optional(float[N]) o2, string[2] t2) {
            s2 = Identity (s) o2 = Identity (o) t2 = Identity (t)
        }""",
    )
    sequence = [np.ones(1, np.float32), np.ones(2, np.float32)]
    feeds = {"s": sequence, "o": None, "t": np.array(["a", "bé"])}
    [result] = worker.run(model, [feeds], level="disable_all")
    assert [np.shape(item) for item in result["s2"] or ()] == [(1,), (2,)]
    assert result["o2"] is None
    assert np.asarray(result["t2"]).tolist() == ["a", "bé"]


def test_maps_come_back_as_keys_and_values(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(
        tmp_path,
        """g (float[1, 2] x) => (seq(map(int64, float)) y) {
            y = ai.onnx.ml.ZipMap <classlabels_int64s = [7, 9]> (x)
        }""",
    )
    [result] = worker.run(model, [{"x": np.array([[0.25, 0.75]], np.float32)}], level="disable_all")
    assert [np.asarray(item).tolist() for item in result["y"] or ()] == [[7, 9], [0.25, 0.75]]


def test_a_cast_pair_rounds_at_disable_all(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(
        tmp_path,
        """g (float[1] x) => (float[1] y) {
            narrow = Cast <to = 16> (x) y = Cast <to = 1> (narrow)
        }""",
    )
    [result] = worker.run(model, [{"x": np.array([1.001], np.float32)}], level="disable_all")
    assert np.asarray(result["y"]).tolist() == [1.0]


def test_a_missing_kernel_is_told_apart(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(
        tmp_path,
        """g (float[2, 2] x) => (float[2, 2] y) {
            a = Cast <to = 16> (x) b = MatMul (a, a) y = Cast <to = 1> (b)
        }""",
    )
    with pytest.raises(RuntimeFailure) as caught:
        worker.load(model, "default")
    assert caught.value.kind == "not_implemented"
    assert "MatMul" in caught.value.message


def test_types_that_python_cannot_take_are_not_implemented(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    # onnxruntime would return the bits of float8 values as uint8.
    model = save(tmp_path, "g (float[1] x) => (float8e4m3fn[1] y) { y = Cast <to = 17> (x) }")
    worker.load(model, "disable_all")
    with pytest.raises(RuntimeFailure, match="'y'") as caught:
        worker.run(model, [ONE], level="disable_all")
    assert caught.value.kind == "not_implemented"


def test_an_invalid_graph_does_not_load(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(tmp_path, "g (float[1] x) => (float[1] y) { y = Nonsense (x) }")
    with pytest.raises(RuntimeFailure, match="Nonsense") as caught:
        worker.load(model, "disable_all")
    assert caught.value.kind == "load"
    assert "\n" not in caught.value.message


def test_a_missing_file_does_not_load(worker: Worker, tmp_path: pathlib.Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        worker.load(tmp_path / "absent.onnx", "disable_all")
    assert caught.value.kind == "load"


def test_a_failed_run_is_reported_and_the_child_lives_on(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    model = save(tmp_path, "g (float[N] x) => (float[N] y) { y = Add (x, x) }")
    worker.load(model, "default")
    pid = worker.pid
    with pytest.raises(RuntimeFailure) as caught:
        worker.run(model, [{"x": np.ones((1, 1), np.int64)}], level="disable_all")
    assert caught.value.kind == "run"
    assert caught.value.signal == ""
    assert worker.run(model, [ONE], level="disable_all")
    assert worker.pid == pid


def test_a_crash_is_reported_and_the_next_run_works(worker: Worker, tmp_path: pathlib.Path) -> None:
    kill_soon(worker)
    with pytest.raises(RuntimeFailure) as caught:
        worker.run(save(tmp_path, ENDLESS), [ONE], level="disable_all")
    assert caught.value.kind == "crash"
    assert caught.value.signal == "SIGSEGV"
    assert caught.value.message == "onnxruntime's process was killed by SIGSEGV"
    assert worker.run(save(tmp_path, IDENTITY), [ONE], level="disable_all")


def test_a_child_that_died_idle_is_replaced(worker: Worker, tmp_path: pathlib.Path) -> None:
    model = save(tmp_path, IDENTITY)
    worker.load(model, "disable_all")
    first = worker.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert worker.run(model, [ONE], level="disable_all")
    assert worker.pid != first


def test_a_run_without_end_is_stopped(tmp_path: pathlib.Path) -> None:
    with Worker(timeout=1.0) as impatient:
        with pytest.raises(RuntimeFailure, match="more than 1 seconds") as caught:
            impatient.run(save(tmp_path, ENDLESS), [ONE], level="disable_all")
        assert caught.value.kind == "timeout"
        assert impatient.pid is None


class ScriptedWorker(Worker):
    """Runs a script of the test's instead of the worker module."""

    script = ""

    def _command(self) -> list[str]:
        return [sys.executable, "-c", self.script]


def test_chatter_on_stdout_is_no_answer(tmp_path: pathlib.Path) -> None:
    class Chatty(ScriptedWorker):
        script = """
import os
from onnxcast.verification import worker
print("at start", flush=True)
real = worker.answer
def answer(*arguments):
    os.write(1, b"{native chatter}\\n")
    print("{python chatter}", flush=True)
    return real(*arguments)
worker.answer = answer
worker.main()
"""

    with Chatty() as chatty:
        assert chatty.run(save(tmp_path, IDENTITY), [ONE], level="disable_all")


def test_a_child_that_does_not_start_is_a_crash_with_its_last_words(
    tmp_path: pathlib.Path,
) -> None:
    class Broken(ScriptedWorker):
        script = "raise SystemExit('no such luck')"

    with Broken() as broken, pytest.raises(RuntimeFailure) as caught:
        broken.load(save(tmp_path, IDENTITY), "disable_all")
    assert caught.value.kind == "crash"
    assert caught.value.message == "onnxruntime's process exited with status 1: no such luck"


def test_the_child_needs_no_particular_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, IDENTITY)
    (tmp_path / "onnxcast").mkdir()
    (tmp_path / "onnxcast" / "__init__.py").write_text("raise ImportError('the wrong one')")
    (tmp_path / "json.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    with Worker() as elsewhere:
        assert elsewhere.run(pathlib.Path("model.onnx"), [ONE], level="disable_all")


def test_nothing_is_left_behind(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = save(tmp_path, IDENTITY)
    with Worker() as tidy:
        tidy.run(model, [ONE, ONE], level="disable_all")
        pid = tidy.pid
        assert pid is not None
        assert not list(tmp_path.rglob("*.npz"))
    assert list(tmp_path.iterdir()) == [model]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_child_leaves_when_its_parent_is_gone(worker: Worker, tmp_path: pathlib.Path) -> None:
    worker.load(save(tmp_path, IDENTITY), "disable_all")
    child = worker._child
    assert child is not None
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(10) == 0


def test_ctrl_c_in_the_terminal_does_not_end_the_child(
    worker: Worker, tmp_path: pathlib.Path
) -> None:
    path = save(tmp_path, IDENTITY)
    worker.load(path, "disable_all")
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    worker.load(path, "default")
    assert worker.pid == pid
