"""Tasks that are killed or run out of disk: the copy ends as an undisturbed one would have, and no attempt that failed is counted."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from streams_recovery.core.errors import NoRoom
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from tests.support.kafka.records import topic, write

pytestmark = [pytest.mark.deep, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]

ROWS = 60_000
SLICE_SECONDS = 0.002


def job_processes():
    """Processes of the jobs that this one submitted, the workers of Python among them."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            yield process, " ".join(process.cmdline())


def writing_worker():
    """A task's Python process that has written a part of its segment."""
    for process, line in job_processes():
        with contextlib.suppress(psutil.Error, FileNotFoundError):
            if "pyspark" in line and any(f.path.endswith("segment.parquet") and Path(f.path).stat().st_size for f in process.open_files()):
                return process
    return None


def executor_of(worker):
    return next(parent for parent in worker.parents() if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()))


@dataclass
class Killer:
    """Kills one process of a job, once, at the moment it is for."""

    victim: str
    segments: Path
    killed: list[str] = field(default_factory=list)

    def __call__(self):
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not self.killed:
            worker = writing_worker()
            if worker is None:
                time.sleep(0.02)
            elif self.victim == "a worker that has stored its segment":
                self.kill_once_stored(worker)
            else:
                victim = worker if self.victim == "a worker that writes" else executor_of(worker)
                victim.kill()
                self.killed.append(f"{victim.name()} {victim.pid}")

    def kill_once_stored(self, worker):
        before = set(self.segments.rglob("*.parquet"))
        while set(self.segments.rglob("*.parquet")) == before:
            worker.resume()
            time.sleep(SLICE_SECONDS)
            worker.suspend()
        worker.kill()
        self.killed.append(f"{worker.name()} {worker.pid}")


def rows_of(location, done):
    table = pq.read_table(Path(location.path) / done.copied.file.key, columns=["offset", "timestamp", "key", "value"])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def source(connection):
    with topic(connection, 2) as name:
        for partition in range(2):
            write(connection, TopicPartition(name, partition), [(1 + n, *record(n), None) for n in range(ROWS)])
        yield name


def record(number):
    """Key and value, a kilobyte that no compression makes smaller."""
    return b"key-%d" % number, random.Random(number).randbytes(1000)


def spec_of(source, application_id="app"):
    ranges = tuple(RangeToCopy(tp=TopicPartition(source, number), start=0, end=ROWS, size_hint=1) for number in range(2))
    return BackupSpec(application_id=application_id, ranges=ranges, compression_level=1)


@pytest.mark.fault("F1")
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("a worker that writes", marks=pytest.mark.deep),
        pytest.param("a worker that has stored its segment", marks=pytest.mark.deep),
        "an executor",
    ],
)
def test_a_task_whose_process_was_killed_is_started_again_and_only_its_last_attempt_counts(submit, location, source, victim):
    stores_first = victim == "a worker that has stored its segment"
    # A worker whose segment is there may have told of it before it is killed: then nothing was lost, and the moment is tried for again.
    left = (disturbed(submit, location, source, victim, f"app-{attempt}") for attempt in range(8 if stores_first else 1))
    assert next((found for found in left if bool(found) == stores_first), None) == (1 if stores_first else 0), (
        "what the killed attempt had stored is nobody's"
    )


def disturbed(submit, location, source, victim, application_id):
    """A copy in which ``victim`` was killed, as whole as any other; how many files are there that are none of it."""
    segments = Path(location.path) / application_id / "segments"
    killer = Killer(victim, segments)
    thread = threading.Thread(target=killer)
    thread.start()
    result = submit("backup", spec_of(source, application_id), BackupResult)
    thread.join()
    assert killer.killed, "nobody was killed"
    assert [(done.copied.start, done.copied.end, done.copied.file.rows) for done in result.ranges] == [(0, ROWS, ROWS)] * 2
    expected = [(n, 1 + n, *record(n)) for n in range(ROWS)]
    assert all(rows_of(location, done) == expected for done in result.ranges), "what an undisturbed copy has"
    stored = set(segments.rglob("*.parquet"))
    counted = {Path(location.path) / done.copied.file.key for done in result.ranges}
    assert counted <= stored
    return len(stored - counted)


@pytest.fixture
def small_disk(tmp_path):
    """Argument list that runs a command with a temporary directory of 16 MB, where this machine lets users mount one."""
    place = tmp_path / "small-disk"
    place.mkdir()
    prefix = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=16m tmpfs '{place}' && TMPDIR='{place}' exec \"$@\"", "sh"]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let users mount a small disk")
    return place, prefix


@pytest.mark.fault("F13")
def test_a_worker_whose_disk_is_full_says_so_and_the_next_run_needs_nothing_of_it(submit, location, source, small_disk):
    place, prefix = small_disk
    with pytest.raises(NoRoom, match="space") as caught:
        submit("backup", spec_of(source), BackupResult, master="local[2]", prefix=prefix)
    assert caught.value.facts["directory"] == str(place)
    assert caught.value.facts["doing"].startswith(f"{source}-")
    assert f" 0 to {ROWS - 1}," in caught.value.facts["doing"]
    assert caught.value.exit_code == 2
    assert "TMPDIR" in caught.value.next_step
    assert list(Path(location.path).rglob("*.parquet")) == []
    again = submit("backup", spec_of(source), BackupResult, master="local[2]")
    assert [done.copied.file.rows for done in again.ranges] == [ROWS] * 2
