"""The process of `onnxcast.graph.native`: ``python -I -S native_child.py EXTENSION``.

It imports onnx's extension module and nothing else of onnx, and so starts in a few hundredths of a
second. Says that it is ready, reads a request from stdin until that closes and answers each on
stdout, both by `marshal`, each followed by the bytes of a model:

    (module, function, arguments after the model, bytes of the model), model
    (what onnx said; "" if it did what was asked, died, bytes of the result), result
"""

import contextlib
import importlib.machinery
import importlib.util
import marshal
import os
import signal
import sys
from typing import Any

READY = b"!"
"""What is written once requests can be read, by nothing else that an interpreter may be."""

_MEMORY = 2**30
_MEMORY_PER_BYTE = 32
_SECONDS = 1.0
_SECONDS_PER_BYTE = 2e-6


def main() -> None:
    """Serve requests until stdin closes, which it also does when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which may go on
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed is no reply
    onnx = _extension(sys.argv[1])
    replies.write(READY)
    replies.flush()
    while True:
        try:
            module, function, arguments, size = marshal.load(requests)
        except EOFError:
            return
        said, died, result = _call(
            getattr(getattr(onnx, module), function), requests.read(size), arguments
        )
        marshal.dump((said, died, len(result)), replies)
        replies.write(result)
        replies.flush()


def _call(function: Any, model: bytes, arguments: list[Any]) -> tuple[str, bool, bytes]:
    _limit(_SECONDS + _SECONDS_PER_BYTE * len(model), _MEMORY + _MEMORY_PER_BYTE * len(model))
    try:
        return "", False, function(model, *arguments) or b""
    except Exception as error:
        return f"{error}" or type(error).__name__, isinstance(error, MemoryError), b""
    finally:
        _limit(0.0, 0)


def _limit(seconds: float, memory: int) -> None:
    """Let the system end this process after so much more CPU time, 0 for never.

    And give it no more address space than `memory` bytes, 0 for all there is. Windows has neither.
    """
    if sys.platform == "win32":
        return
    import resource

    signal.setitimer(signal.ITIMER_PROF, seconds)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limits = [size for size in (memory, most) if size not in (0, resource.RLIM_INFINITY)]
    with contextlib.suppress(ValueError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (min(limits, default=most), most))


def _extension(path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("onnx_cpp2py_export", path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
