"""Jobs as they are submitted: a driver process of their own, and executors that are processes too."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound, SparkJobFailed, TargetNotEmpty
from streams_recovery.core.jobs import (
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
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.child_process import run_submit, tail
from streams_recovery.engine.outcome import read_outcome
from streams_recovery.engine.secrets import secrets_file
from streams_recovery.engine.spark_submit import JobFiles, spark_call, submit_argv
from streams_recovery.storage.receipts import read_receipt
from streams_recovery.storage.repository import Repository
from tests.support.kafka.records import end_of, topic, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TWO_EXECUTORS = "local-cluster[2,1,1024]"
PARTITIONS, ROWS = 4, 3000
# What the tasks of one job may send to the driver; the records of one partition alone are more.
RESULT_LIMIT = 1 << 20


# A start-up file of every interpreter of the job, that tells the driver by its script.
HIDING = """
import importlib.abc
import sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        script = sys.argv[0] if getattr(sys, "argv", None) else ""
        if name.split(".")[0] == "confluent_kafka" and script.endswith(("backup.py", "restore.py", "verify.py")):
            raise ImportError(f"{name} is not for the driver")
        return None

sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture
def submit(connection, location, package, tmp_path, new_key):
    """Run a job and return its result. In the driver the Kafka client cannot be imported, and results must be small."""
    repository = Repository(location)
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "sitecustomize.py").write_text(HIDING)

    def run(job, spec, kind, *, master=TWO_EXECUTORS, spec_ref=None, prefix=()):
        if spec_ref is None:
            spec_ref = ArtifactRef.of(new_key(f"{job}-spec"), codec.dumps(spec))
            repository.create(spec_ref.key, codec.dumps(spec))
        result_key = new_key(f"{job}-result")
        with secrets_file(connection, None, directory=tmp_path) as secrets:
            files = JobFiles(package=package, secrets=secrets, receipt=tmp_path / "receipt.json")
            call = spark_call(job, spec=spec_ref, result_key=result_key, location=location, files=files, master=master)
            argv = submit_argv(call, master, extra={"spark.driver.maxResultSize": str(RESULT_LIMIT), "spark.executor.cores": "1"})
            environment = {**call.environment, "PYTHONPATH": str(tmp_path / "driver")}
            files.receipt.unlink(missing_ok=True)
            run_submit([*prefix, *argv], environment, log=tmp_path / "job.log")
            left = read_outcome(repository, read_receipt(files.receipt), result_key, kind, log_tail=tail(tmp_path / "job.log"))
            return codec.loads(kind, left.checked(repository.get(left.key)), where=left.key)

    return run


def test_records_pass_through_both_executors_and_never_through_the_driver(submit, connection):
    with topic(connection, PARTITIONS) as source, topic(connection, PARTITIONS) as target:
        for partition in range(PARTITIONS):
            rows = [(1 + number, b"key-%d" % (number % 500), os.urandom(700), None) for number in range(ROWS)]
            write(connection, TopicPartition(source, partition), rows)
        ranges = tuple(RangeToCopy(topic=source, partition=number, start=0, end=ROWS, size_hint=number) for number in range(PARTITIONS))
        backup = submit("backup", BackupSpec(application_id="app", ranges=ranges, compression_level=3), BackupResult)
        assert [done.copied.file.rows for done in backup.ranges] == [ROWS] * PARTITIONS
        assert all(done.copied.file.payload_bytes > RESULT_LIMIT for done in backup.ranges)
        assert len({done.worker for done in backup.ranges}) == 2

        files = {done.partition: (done.copied.file,) for done in backup.ranges}
        loads = tuple(PartitionToLoad(topic=target, partition=number, first_offset=0, files=files[number]) for number in files)
        restore = submit("restore", RestoreSpec(application_id="app", partitions=loads), RestoreResult)
        assert [done.rows for done in restore.partitions] == [ROWS] * PARTITIONS
        assert len({done.worker for done in restore.partitions}) == 2
        assert [(read.rows, read.digest) for read in restore.read] == [(ROWS, done.digest) for done in restore.partitions]

        pairs = tuple(
            PartitionToVerify(topic=source, partition=number, target_topic=target, topic_id="", start=0, end=ROWS, files=files[number])
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
        wanted = RangeToCopy(topic=source, partition=0, start=0, end=len(rows), size_hint=1)
        backup = submit("backup", BackupSpec(application_id="app", ranges=(wanted,), compression_level=1), BackupResult, master="local[1]")
        load = PartitionToLoad(topic=target, partition=0, first_offset=0, files=(backup.ranges[0].copied.file,))
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
