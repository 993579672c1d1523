"""Both digests of a load: of the archive as it was read, and of the logs as other tasks found them. On a real broker, in one session."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from spark_jobs.transforms.load import load_partitions
from spark_jobs.transforms.task_runner import TaskFailed, run_followed, run_tasks
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs.spec import PartitionToLoad, RangeLost, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from tests.support.examples.rows import SHAPES, digest_of
from tests.support.kafka.records import write
from tests.support.spark.jobs import APPLICATION, BASE, backup

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_only_whole_logs_are_read_back_and_what_is_missing_goes_behind_the_first_rows(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, BASE)
    files = tuple(done.copied.file for done in backup(spark, access, (source, 0, 2), (source, 2, 5)))
    first = PartitionToLoad(tp=TopicPartition(target.topic, 0), first_offset=0, files=SegmentFiles.of(files), limit=3)
    begun = load_partitions(spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=(first,)), access)
    assert (begun.partitions[0].rows, begun.partitions[0].digest, begun.read) == (3, digest_of(BASE[:3]), ())
    whole = load_partitions(
        spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=(replace(first, present=3, limit=None),)), access
    )
    assert (whole.partitions[0].digest, whole.read[0].digest, whole.read[0].rows) == (digest_of(BASE), digest_of(BASE), 5)


@pytest.mark.deep
@pytest.mark.parametrize("present", [0, 3, 5])
def test_both_digests_have_every_row_with_its_headers_in_whatever_order_partitions_are_loaded(spark, access, connection, topics, present):
    source, small, name = TopicPartition(topics(), 0), TopicPartition(topics(), 0), topics(partitions=2)
    write(connection, source, SHAPES)
    write(connection, small, BASE[:2])
    long, short = (done.copied.file for done in backup(spark, access, (source, 0, len(SHAPES)), (small, 0, 2)))
    if present:
        write(connection, TopicPartition(name, 1), SHAPES[:present])
    loads = tuple(
        PartitionToLoad(tp=TopicPartition(name, at), first_offset=0, files=SegmentFiles.of((file,)), present=there)
        for at, file, there in ((0, short, 0), (1, long, present))
    )
    result = load_partitions(spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=loads), access)
    expected = [digest_of(BASE[:2]), digest_of(SHAPES)]
    assert [(one.tp.partition, one.digest) for one in result.partitions] == list(enumerate(expected))
    assert [(one.tp.partition, one.digest) for one in result.read] == list(enumerate(expected))


def await_file(path):
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.exists()


def items(count):
    return [RangeLost(tp=TopicPartition("t", number), start=number, end=count) for number in range(count)]


def leading(spark, work):
    """A leader that does ``work`` of each item."""

    def lead(numbered, ended):
        def each(item):
            work(item[1].start)
            ended(item[0])
            return item[1]

        return run_tasks(spark.sparkContext, numbered, each, RangeLost)

    return lead


def following(spark, work):
    def each(item):
        work(item.start)
        return item

    return lambda ended: run_tasks(spark.sparkContext, ended, each, RangeLost)


def test_what_has_ended_is_followed_while_a_straggler_runs_and_only_what_has_ended(spark, tmp_path):
    def write(number):
        if number == 0:
            # The biggest one begins first, and ends when somebody else has read all the others.
            assert all(await_file(tmp_path / f"read-{other}") for other in range(1, 6))
        (tmp_path / f"written-{number}").touch()

    def read(number):
        assert (tmp_path / f"written-{number}").exists()
        (tmp_path / f"read-{number}").touch()

    led, followed = run_followed(spark.sparkContext, items(6), leading(spark, write), following(spark, read))
    assert led == items(6)
    assert sorted(followed, key=lambda one: one.start) == items(6)
    assert followed[-1] == items(6)[0]


def test_an_error_of_a_follower_ends_the_leader_and_is_told(spark, tmp_path):
    def write(number):
        if number == 0:
            time.sleep(150)

    def read(number):
        raise NotFound(f"log {number} is gone", next_step="none")

    began = time.monotonic()
    with pytest.raises(TaskFailed, match=r"log [1-3] is gone") as caught:
        run_followed(spark.sparkContext, items(4), leading(spark, write), following(spark, read))
    assert isinstance(caught.value.cause, NotFound)
    assert time.monotonic() - began < 100
    assert run_tasks(spark.sparkContext, items(2), lambda item: item, RangeLost) == items(2), "the slots are free again"


@pytest.mark.deep
def test_an_error_of_the_leader_ends_its_followers_and_is_told(spark, tmp_path):
    def write(number):
        if number == 0:
            await_file(tmp_path / "reading")
            raise Damaged("a file is broken", next_step="none")

    def read(_number):
        (tmp_path / "reading").touch()
        time.sleep(150)

    began = time.monotonic()
    with pytest.raises(TaskFailed, match="a file is broken") as caught:
        run_followed(spark.sparkContext, items(2), leading(spark, write), following(spark, read))
    assert isinstance(caught.value.cause, Damaged)
    assert time.monotonic() - began < 100


def test_nothing_to_lead_is_nothing_to_follow(spark):
    assert run_followed(spark.sparkContext, [], leading(spark, time.sleep), following(spark, time.sleep)) == ([], [])
