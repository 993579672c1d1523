"""Jobs as they are submitted: a driver process of their own, and executors that are processes too."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest

from streams_recovery.core.errors import NotFound, SparkJobFailed, TargetNotEmpty
from streams_recovery.core.jobs.spec import (
    BackupResult,
    BackupSpec,
    PartitionToLoad,
    PartitionToVerify,
    RangeToCopy,
    RestoreResult,
    RestoreSpec,
    VerifyResult,
    VerifySpec,
)
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.run_artifact import ArtifactRef
from tests.support.kafka.records import end_of, topic, write
from tests.support.spark.submission import RESULT_LIMIT

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PARTITIONS, ROWS = 4, 3000


@pytest.mark.deep
def test_records_pass_through_both_executors_and_never_through_the_driver(submit, connection):
    with topic(connection, PARTITIONS) as source, topic(connection, PARTITIONS) as target:
        for partition in range(PARTITIONS):
            rows = [(1 + number, b"key-%d" % (number % 500), os.urandom(700), None) for number in range(ROWS)]
            write(connection, TopicPartition(source, partition), rows)
        ranges = tuple(RangeToCopy(tp=TopicPartition(source, number), start=0, end=ROWS, size_hint=number) for number in range(PARTITIONS))
        backup = submit("backup", BackupSpec(application_id="app", ranges=ranges, compression_level=3), BackupResult)
        assert [done.copied.file.rows for done in backup.ranges] == [ROWS] * PARTITIONS
        assert all(done.copied.file.payload_bytes > RESULT_LIMIT for done in backup.ranges)
        assert len({done.worker for done in backup.ranges}) == 2

        files = {done.tp.partition: (done.copied.file,) for done in backup.ranges}
        loads = tuple(
            PartitionToLoad(tp=TopicPartition(target, number), first_offset=0, files=SegmentFiles.of(files[number])) for number in files
        )
        restore = submit("restore", RestoreSpec(application_id="app", partitions=loads), RestoreResult)
        assert [done.rows for done in restore.partitions] == [ROWS] * PARTITIONS
        assert len({done.worker for done in restore.partitions}) == 2
        assert [(read.rows, read.digest) for read in restore.read] == [(ROWS, done.digest) for done in restore.partitions]

        pairs = tuple(
            PartitionToVerify(
                tp=TopicPartition(source, number), target_topic=target, topic_id="", start=0, end=ROWS, files=SegmentFiles.of(files[number])
            )
            for number in files
        )
        verify = submit("verify", VerifySpec(application_id="app", partitions=pairs, keyed=(source,)), VerifyResult, master="local[2]")
        assert all(part.equal for part in verify.partitions)
        assert [(one.keys_compared, one.keys_different) for one in verify.keys] == [(500, 0)] * PARTITIONS

        with pytest.raises(TargetNotEmpty, match=f"ends at {ROWS}, not at 0"):
            submit("restore", RestoreSpec(application_id="app", partitions=loads), RestoreResult, master="local[2]")


def test_a_specification_that_is_not_there_ends_the_job_by_name(submit):
    with pytest.raises(NotFound, match=r"app/work/run/none\.json"):
        submit("verify", None, VerifyResult, master="local[1]", spec_ref=ArtifactRef(key="app/work/run/none.json", sha256=""))


@pytest.mark.deep
def test_nobody_goes_on_writing_when_the_driver_was_killed(submit, connection):
    rows = [(1, None, os.urandom(1000), None)] * 300_000
    with topic(connection) as source, topic(connection) as target:
        write(connection, TopicPartition(source, 0), rows)
        wanted = RangeToCopy(tp=TopicPartition(source, 0), start=0, end=len(rows), size_hint=1)
        backup = submit("backup", BackupSpec(application_id="app", ranges=(wanted,), compression_level=1), BackupResult, master="local[1]")
        load = PartitionToLoad(tp=TopicPartition(target, 0), first_offset=0, files=SegmentFiles.of((backup.ranges[0].copied.file,)))
        into = TopicPartition(target, 0)
        killer = threading.Thread(target=kill_driver_when, args=(lambda: end_of(connection, into) > 5000,))
        killer.start()
        with pytest.raises(SparkJobFailed):
            submit("restore", RestoreSpec(application_id="app", partitions=(load,)), RestoreResult, master="local[1]")
        killer.join()
        time.sleep(1)
        end = end_of(connection, into)
        assert 5000 < end < len(rows)
        time.sleep(3)
        assert end_of(connection, into) == end


def kill_driver_when(due):
    while not due():
        time.sleep(0.05)
    for child in psutil.Process().children():
        if child.name() == "java" and any("restore.py" in part for part in child.cmdline()):
            child.kill()
