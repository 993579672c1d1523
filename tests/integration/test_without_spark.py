"""A load in one process, without Spark: it tells how far it is, and ends as soon as its run has lost the lock."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import LockLost
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, PartitionToLoad, RangeToCopy, RestoreResult, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import RateLimits
from streams_recovery.engine.one_process import ProcessSubmit
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from tests.support.kafka.records import connect, end_of, topic, write

pytestmark = pytest.mark.kafka

ROWS = 3_000


class Jobs:
    """Runs jobs without Spark on a repository of its own."""

    def __init__(self, bootstrap, directory):
        self.connection, self.logs = connect(bootstrap), directory / "logs"
        (directory / "repository").mkdir()
        self.repository = Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")))
        self.seen = []

    def run(self, name, spec, kind):
        """The result of a job."""
        key = f"app/work/run/{name}-{uuid.uuid4().hex}"
        self.repository.create(f"{key}.spec.json", codec.dumps(spec))
        job = SparkJob(
            name=name,
            spec=ArtifactRef.of(f"{key}.spec.json", codec.dumps(spec)),
            result_key=f"{key}.result.json",
            repository=self.repository,
            connection=self.connection,
            credentials=None,
            report=self.seen.append,
        )
        left = ProcessSubmit(logs=self.logs).submit(job)
        return codec.loads(kind, left.checked(self.repository.get(left.key)), where=left.key)

    def saved(self, source):
        """The files of a topic's only partition."""
        write(self.connection, TopicPartition(source, 0), [(1 + number, b"k", b"v" * 100, None) for number in range(ROWS)])
        span = RangeToCopy(tp=TopicPartition(source, 0), start=0, end=ROWS, size_hint=ROWS)
        (copied,) = self.run("backup", BackupSpec(application_id="app", ranges=(span,), compression_level=3), BackupResult).ranges
        return SegmentFiles.of((copied.copied.file,))


@pytest.fixture
def jobs(bootstrap, tmp_path):
    return Jobs(bootstrap, tmp_path)


@pytest.mark.fault("F16")
def test_a_load_ends_when_the_lock_of_its_run_is_taken_and_writes_nothing_after_that(jobs):
    lock = ApplicationLock(jobs.repository, Layout("app"), lambda: time.time_ns() // 1_000_000)
    ticket = lock.acquire("restore 1", lease_seconds=600, purpose="restore")
    with topic(jobs.connection) as source, topic(jobs.connection) as target:
        wanted = PartitionToLoad(tp=TopicPartition(target, 0), first_offset=0, files=jobs.saved(source))
        throttle = RateLimits(records_per_second=ROWS // 60, bytes_per_second=None)
        spec = RestoreSpec(application_id="app", partitions=(wanted,), lock=ticket, throttle=throttle)

        def take():
            deadline = time.monotonic() + 60
            while not end_of(jobs.connection, wanted.tp) and time.monotonic() < deadline:
                time.sleep(0.1)
            lock.take_from("restore 1")

        other = threading.Thread(target=take)
        other.start()
        with pytest.raises(LockLost, match="this job ended itself"):
            jobs.run("restore", spec, RestoreResult)
        other.join()
        ended = end_of(jobs.connection, wanted.tp)
        time.sleep(3)
        assert 0 < end_of(jobs.connection, wanted.tp) == ended < ROWS


@pytest.mark.deep
def test_a_load_tells_how_far_it_is_and_reads_back_what_it_wrote(jobs):
    with topic(jobs.connection) as source, topic(jobs.connection) as target:
        wanted = PartitionToLoad(tp=TopicPartition(target, 0), first_offset=0, files=jobs.saved(source))
        throttle = RateLimits(records_per_second=ROWS // 40, bytes_per_second=None)
        done = jobs.run("restore", RestoreSpec(application_id="app", partitions=(wanted,), throttle=throttle), RestoreResult)
        assert (done.read[0].digest, done.read[0].rows) == (done.partitions[0].digest, ROWS)
    assert any(one.phase == "loading" and 0 < one.records < ROWS for one in jobs.seen)
    assert "loading: " in (jobs.logs / "restore.log").read_text()
