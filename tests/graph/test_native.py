"""What onnx does in a process of its own is the same, and may go wrong there without harm."""

import os
import signal
import subprocess
import sys
import threading

import onnx
import pytest

from onnxcast.graph import native, native_child
from onnxcast.graph.native import NativeFailure, check, convert_version, infer_shapes

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[2, N] x) => (float[N, 2] y)
    { a = Transpose (x) y = Relu (a) }"""


def model(text: str = MODEL) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def die() -> None:
    """Let the child come to an end as by a crash."""
    with pytest.raises(NativeFailure, match="crashed or took too long in gone") as caught:
        native._process(os.getpid()).ask(("checker", "gone", ()), b"")
    assert caught.value.died


def test_the_same_is_inferred_as_in_this_process() -> None:
    for data_prop in (True, False):
        assert infer_shapes(model(), data_prop=data_prop) == onnx.shape_inference.infer_shapes(
            model(), data_prop=data_prop
        )
    assert [info.name for info in infer_shapes(model()).graph.value_info] == ["a"]


def test_the_same_is_converted_as_in_this_process() -> None:
    assert convert_version(model(), 21) == onnx.version_converter.convert_version(model(), 21)
    with pytest.raises(NativeFailure, match="version") as caught:
        convert_version(model(), 999)
    assert not caught.value.died


def test_faults_are_told() -> None:
    check(model(), full=True)
    wrong = model(MODEL.replace("[N, 2] y", "[N, 3, 4] y"))
    check(wrong, full=False)
    for fails in (lambda: check(wrong, full=True), lambda: infer_shapes(wrong, strict=True)):
        with pytest.raises(NativeFailure, match="rank") as caught:
            fails()
        assert not caught.value.died
    with pytest.raises(NativeFailure, match="opset_import"):
        check(onnx.ModelProto(ir_version=8), full=False)


def test_there_is_another_child_after_one_died() -> None:
    for _ in range(3):
        die()
        check(model(), full=True)


def said(text: str) -> str:
    try:
        check(model(text), full=True)
    except NativeFailure as failure:
        return str(failure)
    return ""


def test_many_threads_get_their_own_replies() -> None:
    texts = [MODEL.replace("[N, 2] y", f"[N, {size}] y") for size in range(2, 10)]
    found: list[list[str]] = [[] for _ in texts]

    def ask(index: int) -> None:
        for _ in range(20):
            found[index].append(said(texts[index]))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == [""] * 20
    for size, each in enumerate(found[1:], 3):
        assert len(each) == 20
        assert all(f"(2) vs ({size})" in text for text in each)


def test_an_interrupted_request_leaves_no_reply_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, "_exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            check(model(), full=False)
    check(model(), full=False)


def limited(code: str) -> subprocess.CompletedProcess[bytes]:
    text = f"from onnxcast.graph.native_child import _limit\n{code}"
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, timeout=60, check=False
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_the_child_has_limits_of_time_and_memory() -> None:
    assert limited("_limit(0.1, 2**40)\nwhile True: pass").returncode == -signal.SIGPROF
    assert limited("_limit(10, 2**30); bytes(2**31)").stderr.endswith(b"MemoryError\n")
    assert limited("_limit(0.1, 2**20); _limit(0, 0)\nfor _ in range(10**7): pass").returncode == 0


def test_the_child_leaves_when_nobody_can_ask_any_more() -> None:
    command = [sys.executable, "-I", "-S", native_child.__file__]
    extension = onnx.onnx_cpp2py_export.__file__
    assert extension is not None
    ran = subprocess.run([*command, extension], input=b"", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, native_child.READY, b"")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("executable", ""),
        ("executable", "/nowhere/python"),
        ("executable", "/bin/false"),
        ("executable", "/bin/echo"),
        ("frozen", True),
    ],
)
def test_onnx_runs_in_this_process_where_none_can_be_started(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    process = native._Process()
    monkeypatch.setattr(native, "_process", lambda _pid: process)
    monkeypatch.setattr(sys, name, value, raising=False)
    assert infer_shapes(model()) == onnx.shape_inference.infer_shapes(model())
    with pytest.raises(NativeFailure, match="rank") as caught:
        check(model(MODEL.replace("[N, 2] y", "[N, 3, 4] y")), full=True)
    assert not caught.value.died
    assert process._child is None


def test_a_child_that_was_killed_while_idle_costs_no_answer() -> None:
    check(model(), full=True)
    child = native._process(os.getpid())._child
    assert child is not None
    child.kill()
    child.wait()
    check(model(), full=True)


def test_a_schema_that_is_registered_here_counts() -> None:
    formal = onnx.defs.OpSchema.FormalParameter
    schema = onnx.defs.OpSchema(
        "OnlyHere",
        "",
        1,
        inputs=[formal("x", "T")],
        outputs=[formal("y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
    )
    known = model(MODEL.replace("Relu", "OnlyHere"))
    with pytest.raises(NativeFailure, match="OnlyHere"):
        check(known, full=False)
    onnx.defs.register_schema(schema)
    try:
        check(known, full=False)
    finally:
        onnx.defs.deregister_schema("OnlyHere", 1, "")


def test_threads_share_one_child() -> None:
    found: set[native._Process] = set()

    def ask() -> None:
        infer_shapes(model())
        found.add(native._process(os.getpid()))

    native._process.cache_clear()
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
