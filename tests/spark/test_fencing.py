"""A job's process ends soon after its run lost the lock; it takes the specification that it was submitted with, and leaves the result that is used, or none."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Altered, LockLost
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, failure_key
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import read_outcome
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.objects import read_receipt
from streams_recovery.storage.repository import Repository

pytestmark = pytest.mark.spark

RESULT = Layout("app").work("run", "load-result.0001")
JOB = """
import os, sys, time
from spark_jobs import job
from functools import partial
from pathlib import Path
from streams_recovery.core.jobs.spec import RestoreSpec
from streams_recovery.storage.objects import write_local
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository

repository = Repository(StorageLocation(backend="filesystem", path=sys.argv[1]))
ticket = LockTicket(owner="restore 1", number=int(sys.argv[2])) if int(sys.argv[2]) else None
spec = RestoreSpec(application_id="app", partitions=(), lock=ticket)
tell = partial(write_local, Path(sys.argv[5]))
with job._under_lock(repository, spec, lambda error: os._exit(job._failed(repository, sys.argv[3], error, tell))):
    print("working", flush=True)
    time.sleep(float(sys.argv[4]))
print("done", flush=True)
"""


@pytest.fixture
def repository(location, tmp_path):
    (tmp_path / "repository").mkdir()
    return Repository(location)


@pytest.fixture
def lock(repository):
    return ApplicationLock(repository, Layout("app"), lambda: time.time_ns() // 1_000_000)


@pytest.fixture
def started(location, tmp_path):
    def start(number, seconds):
        arguments = [location.path, str(number), RESULT, str(seconds), str(tmp_path / "receipt.json")]
        return subprocess.Popen([sys.executable, "-c", JOB, *arguments], stdout=subprocess.PIPE, text=True)

    return start


@pytest.mark.fault("F16")
def test_it_ends_when_the_lock_is_taken(repository, started, lock, tmp_path):
    ticket = lock.acquire("restore 1", lease_seconds=60, purpose="restore")
    running = started(ticket.number, 120)
    assert running.stdout.readline() == "working\n"
    lock.take_from("restore 1")
    assert running.wait(60) == LockLost.exit_code
    assert running.stdout.read() == ""
    with pytest.raises(LockLost, match="this job ended itself"):
        read_outcome(repository, read_receipt(tmp_path / "receipt.json"), RESULT, dict)


@pytest.mark.deep
def test_who_leaves_the_block_is_not_ended_afterwards(repository, lock):
    from spark_jobs.fencing import fenced

    ticket, ending, ended = lock.acquire("restore 1", lease_seconds=60, purpose="restore"), threading.Event(), []

    def end(error):
        ending.set()
        time.sleep(1)
        ended.append(error)

    with fenced(repository, "app", ticket, end):
        lock.take_from("restore 1")
        assert ending.wait(60)
    assert [type(error) for error in ended] == [LockLost], "what is told behind the block would be overtaken"


@pytest.mark.deep
@pytest.mark.parametrize("held", [True, False])
def test_it_works_on_while_the_lock_is_held_or_there_is_none(repository, started, lock, held, tmp_path):
    ticket = lock.acquire("restore 1", lease_seconds=1, purpose="restore")
    running = started(ticket.number if held else 0, 5)
    assert running.communicate(timeout=60)[0] == "working\ndone\n"
    assert running.returncode == 0
    assert list(repository.keys(failure_key(RESULT).rpartition("/")[0] + "/")) == []
    assert read_receipt(tmp_path / "receipt.json") is None


SPEC = BackupSpec(application_id="app", ranges=(), compression_level=3)
BACKUP_RESULT = "app/work/run/backup-result.0001.json"


# The clocks as they are after the machine was suspended for so many seconds: the one that stands still meanwhile shows none of it.
SUSPENDED = """
import sys, time
from spark_jobs.fencing import awake

real, slept = time.clock_gettime, 0.0
time.clock_gettime = lambda clock: real(clock) + (slept if clock == time.CLOCK_BOOTTIME else 0.0)
with awake():
    time.sleep(0.5)
    slept = float(sys.argv[1])
    time.sleep(2)
"""


@pytest.mark.fault("F112")
@pytest.mark.parametrize(("seconds", "code"), [(30, 0), (60, 75)])
def test_a_task_does_not_go_on_after_its_machine_was_suspended(seconds, code):
    assert subprocess.run([sys.executable, "-c", SUSPENDED, str(seconds)], check=False).returncode == code


@pytest.fixture
def job(location, connection):
    Path(location.path).mkdir()
    repository = Repository(location)
    spec = ArtifactRef.of("app/work/run/backup-spec.0001.json", codec.dumps(SPEC))
    repository.create(spec.key, codec.dumps(SPEC))
    return SparkJob(name="backup", spec=spec, result_key=BACKUP_RESULT, repository=repository, connection=connection, credentials=None)


def test_what_a_job_leaves_is_named_with_its_hash(job, in_session):
    left = in_session.submit(job)
    result = codec.loads(BackupResult, left.checked(job.repository.get(BACKUP_RESULT)), where=BACKUP_RESULT)
    assert (left.key, result.ranges) == (BACKUP_RESULT, ())


def test_a_result_that_is_there_before_the_job_has_one_is_refused_by_its_name(job, in_session):
    forged = codec.dumps(BackupResult(ranges=(), seconds=0.0))
    job.repository.create(BACKUP_RESULT, forged)
    with pytest.raises(Altered, match="was there before") as caught:
        in_session.submit(job)
    assert caught.value.facts == {"key": BACKUP_RESULT}
    assert "run this step again" in caught.value.next_step
    assert job.repository.get(BACKUP_RESULT) == forged


def test_a_specification_that_was_replaced_is_refused_by_its_name(job, in_session, location):
    (Path(location.path) / job.spec.key).write_bytes(codec.dumps(replace(SPEC, application_id="another")))
    with pytest.raises(Altered) as caught:
        in_session.submit(job)
    assert caught.value.facts["key"] == job.spec.key
    assert caught.value.facts["written"] != caught.value.facts["found"]
    assert job.repository.size(BACKUP_RESULT) is None
