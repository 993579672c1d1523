"""A holder counts as dead only with proof. Real processes, and a real lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application.instance_record import birth
from streams_recovery.core.errors import LockHeld
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.lease import HolderProcess
from streams_recovery.operations.lock_holder import is_dead, this_process
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which boot and which container a pid belongs to")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which sleeps."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def identity(process: subprocess.Popen[bytes]) -> HolderProcess:
    return replace(this_process(), pid=process.pid, born=birth(process.pid) or "")


def test_a_process_is_dead_once_it_was_killed_and_not_before(other: subprocess.Popen[bytes]) -> None:
    holder = identity(other)
    assert not is_dead(holder)
    other.kill()
    other.wait()
    assert is_dead(holder)
    assert not is_dead(this_process())


def test_a_pid_that_has_another_process_now_proves_the_end_of_the_first_one(other: subprocess.Popen[bytes]) -> None:
    assert is_dead(replace(identity(other), born="another boot/1"))
    assert not is_dead(replace(identity(other), born="")), "nothing is known about when it was born"


@pytest.mark.parametrize("elsewhere", [{"boot": "another"}, {"boot": ""}, {"namespace": "pid:[1]"}], ids=str)
def test_what_cannot_be_seen_from_here_may_be_alive(other: subprocess.Popen[bytes], elsewhere: dict[str, str]) -> None:
    holder = replace(identity(other), **elsewhere)
    other.kill()
    other.wait()
    assert not is_dead(holder)


def test_a_lock_is_taken_from_a_dead_process_at_once_and_from_nobody_else(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))

    def lock(process: HolderProcess | None) -> ApplicationLock:
        return ApplicationLock(repository, Layout("shop"), lambda: 1_000, name="shop", process=process, is_dead=is_dead)

    lock(identity(other)).acquire("restore 1", lease_seconds=600, purpose="restore")
    mine = lock(None)
    with pytest.raises(LockHeld) as caught:
        mine.acquire("backup 2", lease_seconds=600, purpose="savepoint")
    assert caught.value.commands == ("streams-recovery unlock shop 'restore 1'",)
    place = identity(other)
    assert f"process {place.pid} is gone on {place.host} (`ps -p {place.pid}` there" in caught.value.next_step
    archives = ApplicationLock(repository, Layout("shop").archiving, lambda: 1_000, name="shop")
    archives.acquire("archiver 1", lease_seconds=600, purpose="archiving")
    with pytest.raises(LockHeld) as caught:
        archives.acquire("archiver 2", lease_seconds=600, purpose="archiving")
    assert "in Airflow the run that 'archiver 1' names has failed or is gone" in caught.value.next_step
    assert caught.value.commands == ("streams-recovery unlock shop 'archiver 1'",), "each is of the lock it is about"
    other.kill()
    other.wait()
    mine.acquire("backup 2", lease_seconds=600, purpose="savepoint")
    held = mine.holder()
    assert held is not None
    assert (held.owner, held.took_over_from, held.process) == ("backup 2", "restore 1", None)
    with pytest.raises(LockHeld):
        lock(this_process()).acquire("restore 3", lease_seconds=600, purpose="a run of many processes is never proven dead")
