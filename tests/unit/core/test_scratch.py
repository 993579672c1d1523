"""What a killed process leaves in the directory for temporary files goes when the next one needs a directory there; what somebody uses stays."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams_recovery.core import scratch as module
from streams_recovery.core.scratch import scratch
from tests.support.project import PROJECT

_USER = """import time
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.engine.submitter import SparkStart, place_of
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.repository import Repository
connection = KafkaConnection(bootstrap_servers="b:9092", properties={"sasl.password": "canary-of-scratch"})
repository = Repository(StorageLocation(backend="memory"), None)
with place_of(SparkStart(name="backup", repository=repository, connection=connection, credentials=None)) as (work, secrets):
    (work / "records").write_text("canary-of-scratch")
    print(work, secrets, flush=True)
    time.sleep(600)"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, in which nobody has looked yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_looked", {})
    return tmp_path


@contextmanager
def submitter(room: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that is about to submit a job, and its directory, which is from long ago."""
    environment = {**os.environ, "TMPDIR": str(room), "PYTHONPATH": str(PROJECT / "plugins")}
    with subprocess.Popen([sys.executable, "-c", _USER], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            work, secrets = map(Path, process.stdout.readline().split())
            assert secrets.parent == work
            assert stat.S_IMODE(work.stat().st_mode) == 0o700
            age(work)
            yield process, work
        finally:
            process.kill()


def age(path: Path) -> None:
    os.utime(path, (time.time() - 3600,) * 2)


def holding(room: Path) -> list[str]:
    """Files below it in which the secret is."""
    return [path.name for path in room.rglob("*") if path.is_file() and "canary-of-scratch" in path.read_text()]


def test_what_a_killed_submitter_leaves_is_removed_by_the_next_one(room: Path) -> None:
    with submitter(room) as (process, work):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(holding(room)) == 2
        with scratch() as mine:
            assert (holding(room), work.exists(), mine.exists()) == ([], False, True)
    assert list(room.iterdir()) == []


def test_what_somebody_uses_stays_however_old_it_is(room: Path) -> None:
    with submitter(room) as (process, work), scratch() as mine:
        assert (process.poll(), work.exists(), mine.parent) == (None, True, room)


def test_nothing_else_is_removed(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scratch() as mine:
        prefix = mine.name[:-8]
    (room / "theirs").mkdir()
    kept = [
        room / name for name in ("streams-recovery-tests", f"{prefix}aaaaaaaa.d", "streams-recovery-00000000-aaaaaaaa", f"{prefix}readable")
    ]
    for path in kept:
        path.mkdir(mode=0o700)
    kept[-1].chmod(0o755)
    young, link, file = (room / f"{prefix}{name}" for name in ("newnewne", "linklink", "filefile"))
    link.symlink_to(room / "theirs")
    file.touch(mode=0o600)
    for path in (*kept, file):
        age(path)
    young.mkdir(mode=0o700)
    monkeypatch.setattr(module, "_looked", {})
    with scratch():
        assert [path for path in (*kept, young, link, file, room / "theirs") if not path.exists()] == []
    age(young)
    with scratch():
        assert young.exists(), "it looks once a minute"
