"""A job in the session of the tests leaves what a submitted one leaves: what other tests run in it speaks for both."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.job import Job, do_job
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, LockLost, SparkJobFailed, TargetNotEmpty
from streams_recovery.core.jobs.spec import (
    BackupSpec,
    PartitionToLoad,
    PartitionToVerify,
    RangeToCopy,
    RestoreResult,
    RestoreSpec,
    VerifySpec,
    failure_key,
)
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.engine import submitter as child_process
from streams_recovery.engine.one_process import ProcessSubmit
from streams_recovery.engine.spark_submit import read_outcome
from streams_recovery.engine.submitter import RESULTS, SparkJob, SparkStart, SparkSubmit
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from tests.support.examples.rows import SHAPES, rows_in
from tests.support.kafka.records import read, topic, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROWS = [*SHAPES[:-1], *((1000 + number, b"k%d" % (number % 7), b"v%d" % number, None) for number in range(40))]
# Which attempt, which worker and how long: the only things in which two runs of a job may differ.
OWN = {"seconds", "read_seconds", "worker", "key", "topic_id"}


@dataclass
class Side:
    """One of the two, on the same repository. ``target`` is a topic of its own, called TARGET in what is compared."""

    submitter: object
    repository: Repository
    connection: object
    target: str
    result_key: str = ""

    def run(self, job, spec):
        """What the job left."""
        key = f"app/work/run/{job}-{uuid.uuid4().hex}"
        self.repository.create(f"{key}.spec.json", codec.dumps(spec))
        self.result_key = f"{key}.result.json"
        left = self.submitter.submit(
            SparkJob(
                name=job,
                spec=ArtifactRef.of(f"{key}.spec.json", codec.dumps(spec)),
                result_key=self.result_key,
                repository=self.repository,
                connection=self.connection,
                credentials=None,
            )
        )
        assert left.key == self.result_key
        return codec.loads(RESULTS[job], left.checked(self.repository.get(left.key)), where=left.key)

    def plain(self, result):
        """What of it must be equal on both sides."""
        return json.loads(json.dumps(without(codec.encode(result))).replace(self.target, "TARGET"))


def without(plain):
    if isinstance(plain, dict):
        return {name: without(value) for name, value in plain.items() if name not in OWN}
    return [without(each) for each in plain] if isinstance(plain, list) else plain


@pytest.fixture
def repository(location, tmp_path):
    (tmp_path / "repository").mkdir()
    return Repository(location)


def everything(side, source, *, keyed=True):
    """A copy, its load, the comparison, and a load that is refused; each as it was left."""
    span = RangeToCopy(tp=TopicPartition(source, 0), start=0, end=len(ROWS), size_hint=1)
    backup = side.run("backup", BackupSpec(application_id="app", ranges=(span,), compression_level=3))
    files = (backup.ranges[0].copied.file,)
    load = RestoreSpec(
        application_id="app",
        partitions=(PartitionToLoad(tp=TopicPartition(side.target, 0), first_offset=0, files=SegmentFiles.of(files)),),
        stall_seconds=60,
    )
    restore = side.run("restore", load)
    pair = PartitionToVerify(
        tp=TopicPartition(source, 0), target_topic=side.target, topic_id="", start=0, end=len(ROWS), files=SegmentFiles.of(files)
    )
    verify = side.run("verify", VerifySpec(application_id="app", partitions=(pair,), keyed=(source,) if keyed else ()))
    with pytest.raises(TargetNotEmpty) as refused:
        side.run("restore", load)
    noted = json.loads(side.repository.get(failure_key(side.result_key)))
    found = {"backup": backup, "restore": restore, "verify": verify}
    return {**{name: side.plain(result) for name, result in found.items()}, "failure": side.plain(noted)}, str(refused.value)


@pytest.mark.deep
def test_all_submitters_leave_equal_results_rows_and_failures(repository, connection, in_session, tmp_path):
    with topic(connection) as source, topic(connection) as here, topic(connection) as there, topic(connection) as alone:
        write(connection, TopicPartition(source, 0), ROWS)
        submitted = Side(SparkSubmit(master="local[2]", logs=tmp_path / "logs"), repository, connection, there)
        inside = Side(in_session, repository, connection, here)
        process = Side(ProcessSubmit(logs=tmp_path / "alone"), repository, connection, alone)
        (left, refused), (expected, said) = everything(inside, source), everything(submitted, source)
        assert left == expected
        assert refused.replace(here, there) == said
        found, refused = everything(process, source, keyed=False)
        assert found == {**expected, "verify": {**expected["verify"], "keys": []}}
        assert refused.replace(alone, there) == said
        assert (left["restore"]["partitions"][0]["rows"], left["failure"]["error"]) == (len(ROWS), "TargetNotEmpty")
        loaded = [rows_in(read(connection, TopicPartition(name, 0), 0, len(ROWS))) for name in (here, there, alone)]
        assert loaded == [ROWS, ROWS, ROWS]


NOTHING = VerifySpec(application_id="app", partitions=(), keyed=())


@pytest.fixture
def begun(monkeypatch):
    """Every process of spark-submit, in its order."""
    processes, start = [], child_process.started
    monkeypatch.setattr(child_process, "started", lambda *of, **how: processes.append(start(*of, **how)) or processes[-1])
    return processes


@contextmanager
def ahead(repository, connection, directory):
    """Spark that waits for a comparison, as a side."""
    start = SparkStart(name="verify", repository=repository, connection=connection, credentials=None)
    with SparkSubmit(master="local[2]", logs=directory).ahead(start) as begun:
        yield Side(begun, repository, connection, "none")


@pytest.mark.deep
def test_spark_that_was_started_ahead_does_the_first_job_and_the_next_is_submitted(repository, connection, tmp_path, begun):
    with ahead(repository, connection, tmp_path) as side:
        assert side.run("verify", NOTHING).partitions == ()
        assert (len(begun), begun[0].wait(60)) == (1, 0)
        assert side.run("verify", NOTHING).partitions == ()
        assert len(begun) == 2


@pytest.mark.deep
def test_spark_that_waits_makes_room_for_a_job_of_another_name(repository, connection, tmp_path, begun):
    with ahead(repository, connection, tmp_path) as side:
        assert side.run("backup", BackupSpec(application_id="app", ranges=(), compression_level=3)).ranges == ()
        assert begun[0].poll() is not None, "a cluster may have room for one only"
        assert side.run("verify", NOTHING).partitions == ()
    assert len(begun) == 3


@pytest.mark.deep
@pytest.mark.parametrize("dies", [False, True])
def test_spark_that_gets_no_job_ends_and_one_that_died_is_started_again(repository, connection, tmp_path, begun, dies):
    with ahead(repository, connection, tmp_path) as side:
        if dies:
            os.killpg(begun[0].pid, signal.SIGKILL)
            begun[0].wait()
            assert side.run("verify", NOTHING).partitions == ()
    assert (len(begun), begun[0].poll() is None) == (1 + dies, False)


@pytest.mark.deep
def test_what_spark_keeps_on_disk_is_for_its_user_alone_and_goes_when_spark_was_killed(
    repository, connection, tmp_path, begun, monkeypatch
):
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))
    with ahead(repository, connection, tmp_path):
        kept = poll(lambda: next(room.glob("*/blockmgr-*"), None), seconds=60, interval=0.05)
        assert kept is not None
        assert stat.S_IMODE(kept.parent.stat().st_mode) == stat.S_IRWXU
        os.killpg(begun[0].pid, signal.SIGKILL)
        begun[0].wait()
        assert kept.exists()
    assert list(room.iterdir()) == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_result_is_told_before_spark_stops_and_a_failure_when_it_has(repository, access, spark, fails):
    happened = []

    @contextmanager
    def started():
        try:
            yield spark.sparkContext
        finally:
            happened.append("stopped")

    def work(*_):
        if fails:
            raise Damaged("a file is broken", next_step="choose another")
        return ()

    data = codec.dumps(VerifySpec(application_id="app", partitions=(), keyed=()))
    repository.create("app/work/run/spec.json", data)
    do_job(
        Job(name="verify", kind=VerifySpec, work=work),
        access,
        ArtifactRef.of("app/work/run/spec.json", data),
        "app/work/run/result.json",
        tasks=started,
        end=happened.append,
        tell=lambda receipt: happened.append("failed" if receipt.failure else "told"),
    )
    assert happened == (["stopped", "failed"] if fails else ["told", "stopped"])


def test_a_job_that_fails_without_a_reason_of_ours_is_told_with_its_log(repository, connection, in_session, monkeypatch):
    from spark_jobs import state

    def broken(*_):
        raise ZeroDivisionError("in the job")

    monkeypatch.setattr(state, "JOB", Job(name="state", kind=VerifySpec, work=broken))
    side = Side(in_session, repository, connection, "none")
    with pytest.raises(SparkJobFailed, match="ZeroDivisionError: in the job"):
        side.run("state", VerifySpec(application_id="app", partitions=(), keyed=()))


def test_a_job_in_a_session_ends_when_the_lock_is_taken_and_the_session_goes_on(repository, connection, location, spark):
    lock = ApplicationLock(repository, Layout("app"), lambda: time.time_ns() // 1_000_000)
    ticket = lock.acquire("restore 1", lease_seconds=60, purpose="restore")
    result_key, told = "app/work/run/result.json", []
    data = codec.dumps(RestoreSpec(application_id="app", partitions=(), lock=ticket))
    spec = ArtifactRef.of("app/work/run/spec.json", data)
    repository.create(spec.key, data)

    def slow(*_):
        lock.take_from("restore 1")
        spark.range(1).mapInArrow(endless, "id long").collect()

    def endless(batches):
        time.sleep(300)
        yield from batches

    access = JobAccess(connection=connection, location=location, credentials=None)
    job = Job(name="restore", kind=RestoreSpec, work=slow)
    with pytest.raises(Exception, match=r"(?i)cancel"):
        do_job(
            job,
            access,
            spec,
            result_key,
            tasks=lambda: nullcontext(spark.sparkContext),
            end=lambda _: spark.sparkContext.cancelAllJobs(),
            tell=told.append,
        )
    with pytest.raises(LockLost, match="this job ended itself"):
        read_outcome(repository, told[-1], result_key, RestoreResult)
    assert spark.range(3).count() == 3
