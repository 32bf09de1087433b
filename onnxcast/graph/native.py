"""onnx's shape inference, full check and version converter, in a process of their own.

They are C++ that takes models at their word: on one whose nodes are not what their ops ask for they
may crash, never end, or take all memory. The process has limits; after it died there is another.
Where none can be started (a frozen program), onnx runs in this one.
"""

import atexit
import contextlib
import functools
import logging
import marshal
import os
import subprocess
import sys
import threading
from typing import Any

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]  # has no stubs

from onnxcast.graph import native_child

__all__ = ["NativeFailure", "check", "convert_version", "dismiss", "infer_shapes"]

_EXIT_SECONDS = 0.2
"""How long an idle child has to leave; one that a fork holds back is killed, and loses nothing."""

_FIRST = threading.Lock()
"""Held while the one child is looked up, so that threads do not make one each."""

logger = logging.getLogger(__name__)


class NativeFailure(Exception):  # noqa: N818 - an outcome to report, often no error
    """onnx did not do what it was asked for.

    Attributes:
        died: Whether it crashed or came to a limit, so that it has not said anything of the model.
    """

    def __init__(self, message: str, *, died: bool) -> None:
        super().__init__(message)
        self.died = died


def infer_shapes(
    model: onnx.ModelProto, *, strict: bool = False, data_prop: bool = False
) -> onnx.ModelProto:
    """Return `model` with the types and shapes that onnx infers.

    Args:
        model: It is not changed.
        strict: Whether types are checked, and what does not infer is a failure.
        data_prop: Whether small tensors of sizes are followed through the ops that compute them.

    Raises:
        NativeFailure: It was not done.
    """
    return _model(_ask("shape_inference", "infer_shapes", model, strict, strict, data_prop))


def check(model: onnx.ModelProto, *, full: bool) -> None:
    """Let onnx's checker look at `model`.

    Args:
        model: It is not changed.
        full: Whether shapes and types are inferred and must agree with the declared ones.

    Raises:
        NativeFailure: It finds a fault.
    """
    try:
        _ask("checker", "check_model", model, full)
    except NativeFailure as failure:
        if failure.died:
            raise
        # It lived, so it is safe to ask here, where more schemas may be registered.
        _call_here(("checker", "check_model", (full,)), model.SerializeToString())


def convert_version(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """Return `model` at an opset `version` of the ONNX domain, by onnx's version converter.

    Raises:
        NativeFailure: It was not done.
    """
    return _model(_ask("version_converter", "convert_version", model, version))


def _ask(module: str, function: str, model: onnx.ModelProto, *arguments: int) -> bytes:
    try:
        data = model.SerializeToString()
    except EncodeError:
        raise NativeFailure("more than 2 GB in one message", died=True) from None
    with _FIRST:
        process = _process(os.getpid())
    return process.ask((module, function, arguments), data)


def _model(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    return model


@functools.cache
def _process(_pid: int) -> "_Process":
    """The one child of this process; of another after a fork."""
    return _Process()


class _Process:
    """A child that does one thing at a time, started when first needed and again after it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        atexit.register(self._end)

    def ask(self, what: tuple[str, str, tuple[int, ...]], data: bytes) -> bytes:
        """Send a request and return its result.

        Raises:
            NativeFailure: There is none.
        """
        with self._lock:
            if self._child is not None and self._child.poll() is not None:
                self._end()  # killed by somebody while it was idle
            try:
                child = self._child or self._start()
            except OSError as error:
                logger.info("onnx runs in this process, as none can be started: %s", error)
                return _call_here(what, data)
            try:
                return _exchange(child, what, data)
            except NativeFailure as failure:
                if failure.died:  # of its memory, which may be in pieces
                    self._end()
                raise
            except (EOFError, OSError):
                self._end(kill=True)
                raise NativeFailure(
                    f"onnx crashed or took too long in {what[1]} (status {child.returncode})",
                    died=True,
                ) from None
            except BaseException:
                # An interrupted request is still being worked on; its reply must not meet the next.
                self._end(kill=True)
                raise

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable or hasattr(sys, "frozen"):  # which would be the whole program again
            raise OSError("no interpreter is known")
        self._child = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S"),
                *(native_child.__file__, str(onnx.onnx_cpp2py_export.__file__)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        assert self._child.stdout is not None
        if self._child.stdout.read(1) != native_child.READY:
            self._end(kill=True)
            raise OSError(f"{sys.executable} does not run {native_child.__file__}")
        return self._child

    def _end(self, *, kill: bool = False) -> None:
        """Let an idle child leave by closing its stdin; kill one that does not, or is to be."""
        child, self._child = self._child, None
        if child is None:
            return
        if kill:
            child.kill()
        dismiss(child, _EXIT_SECONDS)


def dismiss(child: subprocess.Popen[Any], seconds: float) -> None:
    """Let a child that serves its stdin leave by closing that; kill one that takes longer."""
    with contextlib.suppress(OSError), child:
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()


def _exchange(
    child: subprocess.Popen[bytes], what: tuple[str, str, tuple[int, ...]], data: bytes
) -> bytes:
    assert child.stdin is not None
    assert child.stdout is not None
    marshal.dump((*what, len(data)), child.stdin)
    child.stdin.write(data)
    child.stdin.flush()
    said, died, size = marshal.load(child.stdout)
    result = child.stdout.read(size)
    if len(result) < size:
        raise EOFError
    if said:
        raise NativeFailure(said, died=died)
    return result


def _call_here(what: tuple[str, str, tuple[int, ...]], data: bytes) -> bytes:
    module, function, arguments = what
    asked = getattr(getattr(onnx.onnx_cpp2py_export, module), function)
    try:
        return asked(data, *arguments) or b""
    except Exception as error:
        said = f"{error}" or type(error).__name__
        raise NativeFailure(said, died=isinstance(error, MemoryError)) from None
