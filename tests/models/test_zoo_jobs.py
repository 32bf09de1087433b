import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from onnxcast.verification.children import child_environment
from onnxcast_models.jobs import Job, Limits, run_job
from onnxcast_models.rows import Mode
from onnxcast_models.subjects import find_subjects
from tests.zoo_folder import Break


@pytest.fixture
def job(folder: Path) -> Job:
    return Job.of(find_subjects(folder)[0], Mode("all-fp16"), None)


def test_a_job_is_done_in_a_process_of_its_own(job: Job) -> None:
    row = run_job(job, Limits())
    assert row.outcome == "written", row.cause
    assert row.key == job.key
    assert row.digest == job.digest
    assert (row.casts, row.hops, row.cast_bytes, row.pins) == (2, 2, 18, 0)
    assert (row.bytes_before, row.bytes_after, row.narrow_bytes) == (36, 18, 18)
    assert row.narrow == 1
    assert 0 < (row.worst_error or 0) < 1e-2
    assert 0 < (row.held_out or 0) < 1e-2
    assert (row.megabytes or 0) > 10


def test_a_process_that_dies_is_a_row_with_the_signal_and_its_last_words(
    job: Job, break_jobs: Break
) -> None:
    break_jobs(
        "import os, signal, onnxcast.api\n"
        "def die(*args, **options):\n"
        "    print('about to die', file=sys.stderr, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGSEGV)\n"
        "onnxcast.api.optimize = die"
    )
    row = run_job(job, Limits())
    assert row.outcome == "crashed"
    assert row.cause == "its process was killed by SIGSEGV: about to die"


def test_a_process_that_leaves_is_a_row(job: Job, break_jobs: Break) -> None:
    break_jobs("import os; os._exit(3)")
    row = run_job(job, Limits())
    assert (row.outcome, row.cause) == ("crashed", "its process exited with status 3")


def test_a_fault_of_ours_is_a_row(job: Job, break_jobs: Break) -> None:
    break_jobs(
        "import onnxcast.api\ndef fail(*args, **options): return 1 / 0\n"
        "onnxcast.api.optimize = fail"
    )
    row = run_job(job, Limits())
    assert (row.outcome, row.cause) == ("failed", "ZeroDivisionError: division by zero")


def test_time_is_limited_for_what_a_job_started_too(
    job: Job, break_jobs: Break, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    break_jobs(
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    row = run_job(job, Limits(seconds=2))
    assert (row.outcome, row.cause) == ("crashed", "took more than 2 seconds")
    assert 2 <= row.seconds < 20
    assert is_gone(int(pid.read_text()))


def test_a_job_that_is_ended_leaves_no_temporary_folder(
    job: Job, break_jobs: Break, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, made = tmp_path / "temporary", tmp_path / "made"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    break_jobs(
        f"import tempfile, time\nopen({str(made)!r}, 'w').write(tempfile.mkdtemp())\ntime.sleep(60)"
    )
    row = run_job(job, Limits(seconds=2))
    assert row.outcome == "crashed"
    assert temporary in Path(made.read_text()).parents
    assert not list(temporary.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space")
def test_memory_is_limited(job: Job, break_jobs: Break) -> None:
    break_jobs(
        "import onnxcast.api\ndef eat(*args, **options): return bytearray(3 << 30)\n"
        "onnxcast.api.optimize = eat"
    )
    row = run_job(job, Limits(megabytes=2048))
    assert row.outcome == "crashed"
    assert "out of memory" in row.cause


def test_a_job_is_ended_by_an_event(job: Job, break_jobs: Break) -> None:
    break_jobs("import time; time.sleep(60)")
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    row = run_job(job, Limits(), stop=stop)
    assert (row.outcome, row.cause) == ("crashed", "interrupted")
    assert row.seconds < 20


def test_a_job_ends_with_the_process_that_asked_for_it(
    job: Job, break_jobs: Break, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    break_jobs(
        "import onnxcast.api, os, time\n"
        "def wait(*args, **options):\n"
        f"    open({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "onnxcast.api.optimize = wait"
    )
    code = (
        "import json, sys\n"
        "from onnxcast_models.jobs import Job, Limits, run_job\n"
        "plain = json.loads(sys.argv[1]); plain['samples'] = tuple(plain['samples'])\n"
        "run_job(Job(**plain), Limits())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(dataclasses.asdict(job))], env=child_environment()
    ) as parent:
        wait_for(lambda: pid.exists() and pid.read_text() != "")
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: is_gone(int(pid.read_text())))


def wait_for(holds: "object", seconds: float = 30) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    """Whether no such process runs; one that nobody has waited for is gone, too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
