import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxcast import RefusedError
from onnxcast.verification.children import child_environment
from onnxcast_models import wheels
from onnxcast_models.catalogue import CATALOGUE
from onnxcast_models.entries import Wheel
from onnxcast_models.store import read_rows
from tests.cli.conftest import Command
from tests.zoo_folder import Break

# The version converter cannot raise a product that broadcasts along an axis.
OLD = """
<ir_version: 3, opset_import: ["" : 5]>
agraph (float[2,3] x, float[2] z) => (float[2,3] y) { y = Mul <axis = 0, broadcast = 1> (x, z) }
"""


def rows_of(command: Command, *arguments: object) -> dict[str, dict[str, object]]:
    ran = command("zoo", "run", *arguments, "--json")
    return {row["name"]: row for row in json.loads(ran.out)}


def test_list_names_every_model(command: Command) -> None:
    ran = command("zoo", "list")
    assert ran.code == 0
    names = [line.split()[0] for line in ran.out.splitlines()[1:] if not line.startswith(" ")]
    assert names == [entry.name for entry in CATALOGUE]
    rows = json.loads(command("zoo", "list", "--json").out)
    assert [row["name"] for row in rows] == names
    quick = json.loads(command("zoo", "list", "--tag", "quick", "--json").out)
    assert {row["name"] for row in quick} < set(names)


def test_unknown_names_tags_tokens_and_targets_are_bad_usage(command: Command) -> None:
    assert "did you mean silero_vad?" in command("zoo", "run", "silero_vat").err
    for wrong in (["--tag", "slow"], ["--token", "half"], ["--target", "gpu"]):
        ran = command("zoo", "run", *wrong)
        assert ran.code == 2
        assert "known are" in ran.err or wrong[1] in ran.err


def test_run_converts_the_packaged_model_as_expected(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shared = ["digits_resnet_ts", "--token", "all-fp16", "--cache", tmp_path / "cache"]
    ran = command("zoo", "run", *shared, "--out", out)
    assert ran.code == 0, ran.out
    assert "1 written: 1 same" in ran.out
    assert [path.name for path in out.iterdir()] == ["digits_resnet_ts.all-fp16.onnx"]
    row = rows_of(command, *shared)["digits_resnet_ts"]
    assert row["labels"] == [127, 127, 128]


def test_a_folder_of_ones_own_is_a_table_that_tells_what_is_wrong(
    command: Command, folder: Path
) -> None:
    (folder / "unreadable.onnx").write_bytes(b"this is no model")
    broken = onnx.load(folder / "product.onnx")
    broken.graph.node[0].input[1] = "nowhere"
    onnx.save(broken, folder / "broken.onnx")
    onnx.save(onnx.parser.parse_model(OLD), folder / "old.onnx")
    ran = command("zoo", "run", "--models", folder, "--token", "all-fp16")
    assert ran.code == 1
    table = [line.split() for line in ran.out.splitlines()[1:6]]
    assert [(row[0], row[-1]) for row in table] == [
        ("broken", "invalid"),
        ("old", "refused"),
        ("product", "new"),
        ("round_trip", "new"),
        ("unreadable", "invalid"),
    ]
    assert "unreadable all-fp16: invalid: unreadable.onnx: " in ran.out
    assert re.search(r"^broken all-fp16: invalid: .*nowhere", ran.out, re.MULTILINE)
    assert "old all-fp16: refused: " in ran.out
    assert ran.out.splitlines()[-1] == "2 invalid, 1 refused, 2 written: 2 new, 3 worse"


def test_what_is_updated_is_expected(command: Command, folder: Path) -> None:
    arguments = ["--models", folder, "--token", "all-fp16", "--target", "ascend950"]
    onnx.save(onnx.parser.parse_model(OLD), folder / "old.onnx")
    assert command("zoo", "run", *arguments).code == 1
    ran = command("zoo", "run", *arguments, "--update")
    assert ran.code == 0
    assert "3 files of expectations changed" in ran.err
    ran = command("zoo", "run", *arguments)
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "1 refused, 2 written: 3 same"
    assert [path.name for path in sorted((folder / "expected").iterdir())] == [
        "old.json",
        "product.json",
        "round_trip.json",
    ]


NO_FOLDING = """
import onnx_ir, onnxcast.passes.fold_casts
onnxcast.passes.fold_casts.FoldCastsPass.call = (
    lambda self, model: onnx_ir.passes.PassResult(model, False)
)
"""


def test_a_broken_pass_turns_just_the_rows_red_that_it_affects(
    command: Command, folder: Path, break_jobs: Break
) -> None:
    arguments = ["--models", folder, "--token", "none"]
    assert command("zoo", "run", *arguments, "--update").code == 0
    assert command("zoo", "run", *arguments).code == 0
    break_jobs(NO_FOLDING)
    ran = command("zoo", "run", *arguments)
    assert ran.code == 1
    rows = {row["name"]: row for row in json.loads(command("zoo", "run", *arguments, "--json").out)}
    assert rows["product"]["verdict"] == "same"
    assert rows["round_trip"]["verdict"] == "worse"
    assert rows["round_trip"]["why"] == "cast bytes 0 -> 36; casts 0 -> 2"
    assert "round_trip none: cast bytes 0 -> 36; casts 0 -> 2" in ran.out
    assert ran.out.splitlines()[-1] == "2 written: 1 same, 1 worse"


def test_a_run_that_was_killed_does_only_what_is_left(
    command: Command, folder: Path, break_jobs: Break, tmp_path: Path
) -> None:
    results, trace = tmp_path / "results.jsonl", tmp_path / "trace"
    arguments = ["--models", str(folder), "--token", "all-fp16", "--token", "none"]
    arguments += ["--results", str(results)]
    break_jobs(
        "import onnxcast.api, time\n"
        "real = onnxcast.api.optimize\n"
        "def slow(*args, **options):\n"
        "    time.sleep(1)\n"
        f"    open({str(trace)!r}, 'a').write('.')\n"
        "    return real(*args, **options)\n"
        "onnxcast.api.optimize = slow"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "onnxcast_cli", "zoo", "run", *arguments],
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        end = time.monotonic() + 60
        while not (results.exists() and results.read_text().count("\n") >= 2):
            assert time.monotonic() < end
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    done = read_rows(results)
    assert 1 <= len(done) < 4
    trace.write_text("")
    assert command("zoo", "run", *arguments).code == 0
    assert read_rows(results)[: len(done)] == done
    assert len(read_rows(results)) == 4
    assert len(trace.read_text()) == 4 - len(done)
    # All are done: nothing is left, and what a model has become makes its rows worthless.
    trace.write_text("")
    assert command("zoo", "run", *arguments).code == 0
    assert trace.read_text() == ""
    np.savez(folder / "product.npz", x=np.ones((1, 3), np.float32))
    assert command("zoo", "run", *arguments).code == 0
    assert len(trace.read_text()) == 2


def test_an_interrupted_run_ends_its_jobs(folder: Path, break_jobs: Break, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    break_jobs(f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    command = [sys.executable, "-m", "onnxcast_cli", "zoo", "run", "--models", str(folder)]
    with subprocess.Popen(
        [*command, "--token", "none"], env=child_environment(), stderr=subprocess.PIPE, text=True
    ) as run:
        end = time.monotonic() + 60
        while not (pid.exists() and pid.read_text()):
            assert time.monotonic() < end
            time.sleep(0.02)
        run.terminate()
        assert run.wait(30) == 143
        assert run.stderr is not None
        assert run.stderr.read() == "onnxcast: error: terminated\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_compare_tells_what_moved_the_worst_first(
    command: Command, folder: Path, break_jobs: Break, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    arguments = ["zoo", "run", "--models", folder, "--token", "none", "--results"]
    command(*arguments, before)
    assert command("zoo", "compare", before, before).out == "nothing moved\n"
    break_jobs(NO_FOLDING)
    command(*arguments, after)
    ran = command("zoo", "compare", before, after)
    assert ran.code == 1
    assert [line.split() for line in ran.out.splitlines()[1:]] == [
        ["round_trip", "none", "cast", "bytes", "0", "36", "worse"],
        ["round_trip", "none", "casts", "0", "2", "worse"],
    ]
    assert command("zoo", "compare", after, before).code == 0
    moved = json.loads(command("zoo", "compare", before, after, "--json").out)
    assert [row["what"] for row in moved] == ["cast bytes", "casts"]
    assert command("zoo", "compare", before, folder / "product.onnx").code == 2


def test_samples_are_taken_from_their_own_folder(
    command: Command, overflow: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    ones = np.ones(4, np.float32)
    np.savez(folder / "overflow.npz", x=ones, k=ones, s=ones)
    arguments = ["overflow", "--models", overflow.parent, "--token", "all-fp16"]
    row = rows_of(command, *arguments, "--samples", folder)["overflow"]
    assert (row["outcome"], row["pins"]) == ("written", 0)


def test_a_folder_without_models_is_bad_usage(command: Command, tmp_path: Path) -> None:
    ran = command("zoo", "run", "--models", tmp_path)
    assert ran.code == 2
    assert "no .onnx file" in ran.err


def test_a_model_that_cannot_be_had_says_what_is_missing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(wheel: Wheel, _folder: Path) -> None:
        raise RefusedError(f"{wheel}: pip cannot download it")

    monkeypatch.setattr(wheels, "_download", offline)
    shared = ["silero_vad", "--cache", tmp_path]
    ran = command("zoo", "run", *shared, "--token", "none")
    assert ran.code == 1
    assert "silero_vad none: missing: silero-vad==6.2.3: pip cannot download it" in ran.out
    ran = command("zoo", "fetch", *shared, "edge_names")
    assert ran.code == 1
    assert ran.out == f"{tmp_path / 'edge_names.onnx'}\n"
    assert ran.err == "onnxcast: error: silero-vad==6.2.3: pip cannot download it\n"


def test_fetch_prints_paths(command: Command, tmp_path: Path) -> None:
    ran = command("zoo", "fetch", "digits_resnet_ts", "--cache", tmp_path)
    assert ran.code == 0
    assert onnx.load(ran.out.strip()).graph.input[0].name == "image"


def test_a_cache_that_cannot_be_written_is_refused(command: Command, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    ran = command("zoo", "fetch", "edge_names", "--cache", blocked / "cache")
    assert ran.code == 1
    assert "name one by --cache" in ran.err
