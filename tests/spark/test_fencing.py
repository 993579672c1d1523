"""A job's process ends soon after its run lost the lock, says why, and is not disturbed while it has it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from streams_recovery.core.errors import LockLost
from streams_recovery.core.jobs.spec import failure_key
from streams_recovery.core.repository.layout import Layout
from streams_recovery.engine.spark_submit import read_outcome
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
from streams_recovery.storage.objects import write_receipt
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository

repository = Repository(StorageLocation(backend="filesystem", path=sys.argv[1]))
ticket = LockTicket(owner="restore 1", number=int(sys.argv[2])) if int(sys.argv[2]) else None
spec = RestoreSpec(application_id="app", partitions=(), lock=ticket)
tell = partial(write_receipt, Path(sys.argv[5]))
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


@pytest.mark.parametrize("held", [True, False])
def test_it_works_on_while_the_lock_is_held_or_there_is_none(repository, started, lock, held, tmp_path):
    ticket = lock.acquire("restore 1", lease_seconds=1, purpose="restore")
    running = started(ticket.number if held else 0, 5)
    assert running.communicate(timeout=60)[0] == "working\ndone\n"
    assert running.returncode == 0
    assert list(repository.keys(failure_key(RESULT).rpartition("/")[0] + "/")) == []
    assert read_receipt(tmp_path / "receipt.json") is None
