"""A job lives as long as its submitter, and its progress is handed on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from streams_recovery.core import codec
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.engine.spark_submit import secrets_file
from streams_recovery.engine.submitter import followed
from streams_recovery.storage.objects import write_local
from tests.support.project import PROJECT

LOCATION = codec.dumps(StorageLocation(backend="filesystem", path="/nowhere")).decode()

JOB = """
import time
from spark_jobs.submitter import end_with_submitter
end_with_submitter()
time.sleep(float("%s"))
"""


def environment_of(submitter):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    environment.pop("STREAMS_RECOVERY_SUBMITTER", None)
    return environment if submitter is None else environment | {"STREAMS_RECOVERY_SUBMITTER": str(submitter)}


# Kernels before 5.3 do not know the call, and what confines a container may refuse it.
NO_HANDLES = """
import os
def refused(pid):
    raise OSError(os.strerror(38))
os.pidfd_open = refused
"""


def job(submitter, seconds, before=""):
    return subprocess.Popen(
        [sys.executable, "-c", before + JOB % seconds], env=environment_of(submitter), stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def submitter():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_job_ends_when_its_submitter_was_killed_also_before_anybody_reaped_it(submitter):
    running = job(submitter.pid, 600)
    time.sleep(0.3)
    assert running.poll() is None
    os.kill(submitter.pid, 9)
    assert running.wait(60) == 69
    assert running.stderr.read() == f"The submitter, pid {submitter.pid}, is gone: the job ends.\n"


def test_a_job_whose_submitter_was_gone_before_it_looked_ends_at_once(submitter):
    submitter.kill()
    submitter.wait()
    assert job(submitter.pid, 600).wait(60) == 69


def test_a_job_ends_with_its_submitter_where_the_system_has_no_handles_of_processes(submitter):
    running = job(submitter.pid, 600, NO_HANDLES)
    time.sleep(1.5)
    assert running.poll() is None
    submitter.kill()
    submitter.wait()
    try:
        assert running.wait(30) == 69
    finally:
        running.kill()


def test_a_job_with_a_living_submitter_or_none_runs_to_its_end(submitter):
    assert [job(pid, 0.5).wait(60) for pid in (submitter.pid, None)] == [0, 0]


def test_a_driver_whose_submitter_was_killed_before_it_began_leaves_no_secrets(submitter, tmp_path):
    submitter.kill()
    submitter.wait()
    with secrets_file(None, None, directory=tmp_path) as secrets:
        arguments = ["--order", tmp_path / "order.json", "--receipt", tmp_path / "receipt.json", "--repository", LOCATION]
        environment = environment_of(submitter.pid) | {"STREAMS_RECOVERY_SECRETS_FILE": str(secrets)}
        done = subprocess.run(
            [sys.executable, "-m", "spark_jobs.backup", *arguments],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 69, done.stderr
        assert not secrets.exists()


def seen(records: int) -> JobProgress:
    return JobProgress(
        job="backup",
        phase="copying",
        at=records,
        seconds=1.0,
        records=records,
        records_total=10,
        bytes=0,
        tasks=1,
        tasks_done=0,
        records_per_second=None,
        bytes_per_second=None,
        percent=None,
        seconds_left=None,
    )


def test_each_new_progress_is_handed_on_once(tmp_path: Path) -> None:
    path, found, arrived = tmp_path / "progress.json", [], threading.Event()

    def report(progress: JobProgress) -> None:
        found.append(progress.records)
        arrived.set()

    with followed(path, report, every=0.01):
        for records in (1, 2):
            write_local(path, seen(records))
            assert arrived.wait(30)
            arrived.clear()
    write_local(path, seen(3))
    assert found == [1, 2]
    assert not any(thread.name == "job-progress" for thread in threading.enumerate())


def test_the_thread_ends_when_the_job_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the job"), followed(tmp_path / "none.json", print, every=0.01):
        raise ValueError("the job")
    assert not any(thread.name == "job-progress" for thread in threading.enumerate())


def test_without_anybody_to_tell_there_is_no_thread(tmp_path: Path) -> None:
    with followed(tmp_path / "none.json", None):
        assert not any(thread.name == "job-progress" for thread in threading.enumerate())
