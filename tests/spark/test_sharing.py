"""What the items of one task share: made once in the task, closed at its end, also after an error."""

from __future__ import annotations

import sys
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec

import pytest

from spark_jobs.transforms.load import load_partitions
from spark_jobs.transforms.range_copy import copy_ranges
from spark_jobs.transforms.task_runner import TaskFailed, run_tasks, spread_sharing
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import BackupSpec, PartitionToLoad, RangeLost, RangeToCopy, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from tests.support.examples.rows import SHAPES, rows_in
from tests.support.kafka.records import read, topic, write
from tests.support.spark.jobs import backup

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def opening(directory, failing=-1, *, late=False):
    """Leaves a file for each time it opens and closes, in it what it was opened with."""

    @contextmanager
    def opened(items):
        name = uuid.uuid4().hex
        (directory / f"{name}.opened").write_text(" ".join(str(item.tp.partition) for item in items))

        def work(item):
            def ended():
                (directory / f"{item.tp.partition}.ended").touch()
                if item.tp.partition == failing and late:
                    raise Damaged("the one that fails", next_step="none")
                return item

            if item.tp.partition == failing and not late:
                raise Damaged("the one that fails", next_step="none")
            # The end of the one before it is asked for behind this.
            assert not (directory / f"{items[items.index(item) - 1].tp.partition}.ended").exists() or item == items[0]
            return ended

        try:
            yield work
        finally:
            (directory / f"{name}.closed").touch()

    return opened


def items(count):
    return [RangeLost(tp=TopicPartition("t", number), start=0, end=1) for number in range(count)]


def test_each_task_opens_once_with_all_its_items_and_closes(spark, tmp_path):
    assert spread_sharing(spark.sparkContext, items(20), opening(tmp_path), RangeLost, lambda _: 1) == items(20)
    opened, closed = list(tmp_path.glob("*.opened")), list(tmp_path.glob("*.closed"))
    assert sorted(path.stem for path in opened) == sorted(path.stem for path in closed)
    assert len(opened) == 4, "two tasks for each of two slots"
    assert sorted(int(number) for path in opened for number in path.read_text().split()) == list(range(20))


@pytest.mark.parametrize("late", [False, True])
def test_an_error_in_a_task_closes_what_it_shares_and_says_what_it_was(spark, tmp_path, late):
    with pytest.raises(TaskFailed, match="the one that fails") as caught:
        spread_sharing(spark.sparkContext, items(6), opening(tmp_path, failing=3, late=late), RangeLost, lambda _: 1)
    assert isinstance(caught.value.cause, Damaged)
    assert len(list(tmp_path.glob("*.closed"))) == len(list(tmp_path.glob("*.opened"))) >= 1


def test_an_error_of_opening_is_told_too(spark):
    def opened(_items):
        raise Damaged("nothing to share", next_step="none")

    with pytest.raises(TaskFailed, match="nothing to share"):
        spread_sharing(spark.sparkContext, items(2), opened, RangeLost, None)


@pytest.mark.deep
def test_a_worker_that_copies_and_loads_never_imports_pandas_and_could(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, SHAPES)
    (copied,) = backup(spark, access, (source, 0, len(SHAPES)))
    wanted = PartitionToLoad(tp=target, first_offset=0, files=SegmentFiles.of((copied.copied.file,)))
    load_partitions(spark.sparkContext, RestoreSpec(application_id="app", partitions=(wanted,)), access)

    def imported(item):
        return replace(item, start=int("pandas" in sys.modules), end=int(find_spec("pandas") is not None))

    assert [(found.start, found.end) for found in run_tasks(spark.sparkContext, items(4), imported, RangeLost)] == [(0, 1)] * 4


@pytest.mark.deep
def test_many_partitions_of_few_records_are_copied_each_as_it_is(spark, access, connection):
    counts = [number % 4 for number in range(40)]
    with ExitStack() as stack:
        name = stack.enter_context(topic(connection, len(counts)))
        rows = {
            TopicPartition(name, number): [(1 + at, b"%d" % number, b"%d" % at, None) for at in range(count)]
            for number, count in enumerate(counts)
            if count
        }
        for tp, mine in rows.items():
            write(connection, tp, mine)
        wanted = tuple(RangeToCopy(tp=tp, start=0, end=len(mine), size_hint=len(mine)) for tp, mine in rows.items())
        result = copy_ranges(spark.sparkContext, BackupSpec(application_id="app", ranges=wanted, compression_level=3), access)
        assert [(done.tp, done.copied.end, done.copied.file.rows, done.fetched, done.log_start_after) for done in result.ranges] == [
            (each.tp, each.end, each.end, each.end, 0) for each in wanted
        ]
        for done in result.ranges:
            assert rows_in(read(connection, done.tp, 0, done.copied.end)) == rows[done.tp]
        assert len({done.copied.file.sha256 for done in result.ranges}) == len(wanted)
