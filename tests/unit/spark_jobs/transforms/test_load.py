from __future__ import annotations

import pytest
from pyspark import TaskContext

from spark_jobs.access import JobAccess
from spark_jobs.transforms.load import Share, attempts_allowed, load_share
from streams_recovery.core.errors import TransientError
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.kafka.connection import KafkaConnection


@pytest.mark.parametrize(
    ("master", "max_failures", "attempts"),
    [
        ("local", "4", "1"),
        ("local[2]", "4", "1"),
        ("local[*]", "1", "1"),
        ("local[2,4]", "1", "4"),
        ("local[*, 3]", "1", "3"),
        ("local[2,1]", "4", "1"),
        ("local-cluster[2,1,1024]", "1", "1"),
        ("local-cluster[2,1,1024]", "4", "4"),
        ("spark://host:7077", "4", "4"),
        ("spark://host:7077", "1", "1"),
    ],
)
def test_how_often_a_task_may_be_started(master, max_failures, attempts):
    assert attempts_allowed(master, max_failures) == attempts


@pytest.fixture
def attempt():
    """Makes this process the attempt of a task with this number, as Spark tells a task."""

    def become(number):
        TaskContext._getOrCreate()._attemptNumber = number

    yield become
    TaskContext._setTaskContext(None)


@pytest.mark.fault("F112")
def test_a_task_that_was_started_again_writes_nothing(attempt):
    """After an executor is lost with its worker Spark does so whatever spark.task.maxFailures says."""
    nothing = Share(partitions=(), throttle=None, stall_seconds=1)
    access = JobAccess(
        connection=KafkaConnection(bootstrap_servers="127.0.0.1:1", properties={}),
        location=StorageLocation(backend="memory"),
        credentials=None,
    )
    assert load_share(nothing, access).partitions == ()
    attempt(0)
    assert load_share(nothing, access).partitions == ()
    attempt(1)
    with pytest.raises(TransientError, match="started its task again") as caught:
        load_share(nothing, access)
    assert caught.value.exit_code == 7
