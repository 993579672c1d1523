"""What real tasks tell while they run, in the session of the tests and as a submitted job."""

from __future__ import annotations

import time

import pytest

from spark_jobs.transforms.counting import count
from spark_jobs.transforms.progress import Board, Doing, reporting
from spark_jobs.transforms.task_runner import run_tasks
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import PartitionToLoad, RangeLost, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import RateLimits
from streams_recovery.engine.submitter import SparkJob, SparkSubmit
from streams_recovery.storage.progress_store import progress_of_run
from streams_recovery.storage.repository import Repository
from tests.support.kafka.records import topic, write
from tests.support.spark.jobs import backup

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

RESULT = "app/work/run/result.json"
ITEMS = [RangeLost(tp=TopicPartition("t", number), start=0, end=100) for number in range(4)]


def test_tasks_that_ended_and_tasks_that_run_are_seen_by_the_driver(spark, access):
    seen = []
    board = Board(job="backup", access=access, result_key=RESULT, show=seen.append, every=0.5, task_every=0.5)

    def work(item):
        for _ in range(4):
            count(25, 250)
            time.sleep(0.7)
        return item

    with reporting(board):
        done = run_tasks(spark.sparkContext, ITEMS, work, RangeLost, lambda _: 1, Doing(name="working", records=400))
        time.sleep(1.5)
    assert done == ITEMS
    assert [one.records for one in seen] == sorted(one.records for one in seen)
    assert any(0 < one.records < 400 and one.tasks_done < one.tasks for one in seen), "before the first task had ended"
    assert (seen[-1].records, seen[-1].bytes, seen[-1].tasks_done, seen[-1].percent) == (400, 4_000, seen[-1].tasks, 99)
    assert all((one.seconds_left is None or one.seconds_left > 0) and one.percent < 100 for one in seen)


@pytest.mark.deep
def test_a_submitted_job_tells_whoever_submitted_it_and_stores_it_for_pages(spark, access, connection, location, tmp_path):
    repository, seen, rows = Repository(location), [], 4_000
    with topic(connection, 1) as source, topic(connection, 1) as target:
        write(connection, TopicPartition(source, 0), [(1 + number, b"k", b"v" * 100, None) for number in range(rows)])
        (copied,) = backup(spark, access, (TopicPartition(source, 0), 0, rows))
        wanted = PartitionToLoad(tp=TopicPartition(target, 0), first_offset=0, files=SegmentFiles.of((copied.copied.file,)))
        # Forty seconds: the driver looks every five, stores what it sees once or twice, and the task stores after twenty what it has done.
        throttle = RateLimits(records_per_second=100, bytes_per_second=None)
        spec = codec.dumps(RestoreSpec(application_id="app", partitions=(wanted,), throttle=throttle))
        repository.create("app/work/run/spec.json", spec)
        SparkSubmit(master="local[1]", logs=tmp_path / "logs").submit(
            SparkJob(
                name="restore",
                spec=ArtifactRef.of("app/work/run/spec.json", spec),
                result_key=RESULT,
                repository=repository,
                connection=connection,
                credentials=None,
                report=seen.append,
            )
        )
    assert (seen[0].job, seen[0].phase, seen[0].records_total, seen[0].percent) == ("restore", "loading", rows, 0)
    # The last look may come when the task has ended.
    assert any(one.phase == "loading" and 0 < one.records < rows for one in seen), "what the task stored while it ran"
    assert "loading: " in (tmp_path / "logs" / "restore.log").read_text()
    (stored,) = progress_of_run(repository, Layout("app"), "run")
    assert (stored.job, stored.phase) == ("restore", "loading")
