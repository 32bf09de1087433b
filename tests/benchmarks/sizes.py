"""Seconds and memory by the size of a model: ``python -m tests.benchmarks.sizes [--peers]``.

Each model is made here, with its weights in one data file. A row gives the seconds of
``onnxcast optimize --no-verify``, start-up included, and of the bare work: read, convert by numpy,
write and fsync the same bytes, tensor by tensor. Both are medians of so many runs in turn. Peaks
are VmHWM of the process. The bytes of each tensor are compared with numpy's conversion. ``--peers``
adds two other tools.
"""

import argparse
import dataclasses
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from tests.benchmarks import light_peer

_FLOAT, _HALF = 4, 2
_PIECE = 4 * 2**20


@dataclasses.dataclass(frozen=True)
class Size:
    """A model: so many square-ish weights, each read by a MatMul.

    Attributes:
        gigabytes: What it is called.
        weights: How many there are.
        shape: Of each.
    """

    gigabytes: float
    weights: int
    shape: tuple[int, int]

    @property
    def tensor_bytes(self) -> int:
        return _FLOAT * self.shape[0] * self.shape[1]


SIZES = (
    Size(0.1, 24, (1024, 1024)),
    Size(2.5, 37, (4096, 4096)),
    Size(7, 3, (8192, 65536)),
)
"""The last has tensors of 2.1 GB, beyond what one protobuf file takes."""


def make(size: Size, path: Path) -> None:
    """Write a model of `size` to `path`, its data beside it: normal numbers, in a pattern."""
    rows, columns = size.shape
    data = path.with_suffix(".data")
    graph = onnx.GraphProto(name="sized")
    value = onnx.helper.make_tensor_value_info
    for index in range(size.weights):
        tensor = graph.initializer.add(
            name=f"w{index}", dims=size.shape, data_type=onnx.TensorProto.FLOAT
        )
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entries = {
            "location": data.name,
            "offset": str(index * size.tensor_bytes),
            "length": str(size.tensor_bytes),
        }
        for key, entry in entries.items():
            tensor.external_data.add(key=key, value=entry)
        graph.node.add(
            op_type="MatMul",
            input=[f"x{index}", tensor.name],
            output=[f"y{index}"],
            name=f"n{index}",
        )
        graph.input.append(value(f"x{index}", onnx.TensorProto.FLOAT, ["n", rows]))
        graph.output.append(value(f"y{index}", onnx.TensorProto.FLOAT, ["n", columns]))
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    rng = np.random.default_rng(0)
    block = (rng.standard_normal(_PIECE // _FLOAT, np.float32) * np.float32(0.02)).tobytes()
    with data.open("wb", buffering=0) as file:
        for _ in range(size.weights * size.tensor_bytes // _PIECE):
            file.write(block)
    onnx.save(model, path)


def bare(source: Path, target: Path, size: Size) -> None:
    """Read each tensor, convert it, write it; then bring the file to the disk."""
    with source.open("rb", buffering=0) as read, target.open("wb", buffering=0) as write:
        for _ in range(size.weights):
            wide = np.fromfile(read, np.float32, size.tensor_bytes // _FLOAT)
            wide.astype(np.float16).tofile(write)
        os.fsync(write.fileno())


_MEASURED = """
import runpy, sys
arguments = sys.argv[1:]
sys.argv = arguments
try:
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
except SystemExit as leaving:
    assert not leaving.code, leaving.code
status = open("/proc/self/status").read()
print("VmHWM", status.split("VmHWM:")[1].split()[0])
"""


def measured(*arguments: object) -> tuple[float, float]:
    """Run a module in a process of its own; return its seconds and its peak in MB."""
    command = [sys.executable, "-c", _MEASURED, *map(str, arguments)]
    start = time.perf_counter()
    ran = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    seconds = time.perf_counter() - start
    return seconds, int(ran.stdout.rsplit("VmHWM", 1)[1]) * 1024 / 1e6


def same_bytes(source: Path, target: Path, size: Size) -> bool:
    """Whether every tensor of the model at `target` is numpy's conversion of the source's."""
    made = onnx.load(target, load_external_data=False)
    offsets = {
        tensor.name: (target.parent / entries["location"], int(entries["offset"]))
        for tensor in made.graph.initializer
        for entries in [{entry.key: entry.value for entry in tensor.external_data}]
    }
    wanted = (f"w{index}" for index in range(size.weights))
    return all(
        np.array_equal(ours, wide.astype(np.float16).view(np.uint16))
        for index, name in enumerate(wanted)
        for wide, ours in zip(
            _pieces(source, index * size.tensor_bytes, size.tensor_bytes, np.float32),
            _pieces(*offsets[name], size.tensor_bytes // 2, np.uint16),
            strict=True,
        )
    )


def _pieces(
    path: Path, offset: int, length: int, dtype: type[np.generic]
) -> Iterator[npt.NDArray[np.generic]]:
    count = _PIECE // _FLOAT
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        for _ in range(length // np.dtype(dtype).itemsize // count):
            yield np.fromfile(file, dtype, count)


def row(size: Size, folder: Path, *, runs: int, peers: bool) -> str:
    """Measure one size."""
    source, target = folder / "model.onnx", folder / "out.onnx"
    make(size, source)
    data = source.with_suffix(".data")
    bares, ours, peaks = [], [], []
    for _ in range(runs):
        start = time.perf_counter()
        bare(data, folder / "bare.bin", size)
        bares.append(time.perf_counter() - start)
        (folder / "bare.bin").unlink()
        options = ["--fp32-cast", "all-fp16", "--no-verify", "-o", target]
        seconds, peak = measured("onnxcast_cli", "optimize", source, *options)
        ours.append(seconds)
        peaks.append(peak)
    equal = "yes" if same_bytes(data, target, size) else "NO"
    plain, seconds, peak = statistics.median(bares), statistics.median(ours), max(peaks)
    told = (
        f"{size.gigabytes:>5} {size.tensor_bytes / 1e6:>9.0f} {plain:>8.1f} {seconds:>9.1f} "
        f"{seconds / plain:>6.2f} {peak:>8.0f} {equal:>6}"
    )
    return "\n".join([told, *(_peers(source, seconds, peak) if peers else ())])


def _peers(source: Path, seconds: float, peak: float) -> Iterator[str]:
    """Measure the peers that are installed, once each."""
    for name, module in light_peer.MODULES.items():
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            yield f"      {name}: not installed"
            continue
        target = source.with_name("peer.onnx")
        theirs, memory = measured("tests.benchmarks.light_peer", name, source, target)
        for path in (target, target.with_suffix(".data")):
            path.unlink()
        yield (
            f"      {name}: {theirs:.1f} s, {theirs / seconds:.1f} x ours; {memory:.0f} MB, "
            f"{memory / peak:.1f} x ours"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="*", default=[s.gigabytes for s in SIZES])
    parser.add_argument("--runs", type=int, default=3, help="of which medians are taken")
    parser.add_argument("--folder", type=Path, help="where the files go for a while")
    parser.add_argument("--peers", action="store_true", help="also run the peers, once each")
    chosen = parser.parse_args(arguments)
    sys.stdout.write("   GB tensor MB  bare s  onnxcast  ratio  peak MB  equal\n")
    for size in SIZES:
        if size.gigabytes in chosen.sizes:
            with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
                peers = chosen.peers and size.gigabytes < 5  # they do not take larger ones
                sys.stdout.write(row(size, Path(folder), runs=chosen.runs, peers=peers) + "\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
