"""What goes to a task: its own items, and of the job only what all tasks have in common."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from pyspark import SparkContext, cloudpickle

from spark_jobs.transforms import range_copy, task_runner
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import BackupSpec, RangeLost, RangeOutcome, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition


class Spark:
    """Plays Spark: keeps what it is given, and runs it as the only worker."""

    defaultParallelism = 2  # noqa: N815  # Spark's name

    def __init__(self) -> None:
        self.shares: list[bytes] = []
        self.closure = b""

    def parallelize(self, shares: list[bytes], slices: int) -> Spark:
        assert slices == max(1, len(shares))
        self.shares = shares
        return self

    def mapPartitions(self, run: Callable[[Iterable[bytes]], Iterator[Any]]) -> Spark:  # noqa: N802
        self.closure = cloudpickle.dumps(run)
        self.run = run
        return self

    def collect(self) -> list[Any]:
        return [found for share in self.shares for found in self.run([share])]


def items(count: int) -> list[RangeLost]:
    return [RangeLost(tp=TopicPartition("t", number), start=0, end=1) for number in range(count)]


def test_each_task_is_sent_its_own_items_and_results_come_in_their_order() -> None:
    spark, doubled = Spark(), items(9)
    found = task_runner.run_tasks(cast("SparkContext", spark), doubled, lambda one: one, RangeLost, lambda _: 1)
    assert found == doubled
    sent = [[number for number, _ in pickle.loads(share)[1]] for share in spark.shares]
    assert sorted(number for several in sent for number in several) == list(range(9))
    assert len(sent) == 4, "two tasks for each of two slots"
    assert task_runner.run_tasks(cast("SparkContext", spark), [], lambda one: one, RangeLost, None) == []


def test_what_goes_to_every_task_does_not_grow_with_the_job() -> None:
    sizes = []
    for count in (10, 1_000):
        spark = Spark()
        task_runner.run_tasks(cast("SparkContext", spark), items(count), lambda one: one, RangeLost, lambda _: 1)
        sizes.append(len(spark.closure))
    assert sizes[0] == sizes[1]


def test_of_a_copy_s_specification_a_task_is_sent_its_own_ranges(monkeypatch: Any) -> None:
    sizes = []
    # What a task would do, without a broker.
    nothing = codec.dumps(RangeOutcome(copied=(), lost=()))
    monkeypatch.setattr(task_runner, "marking", lambda _, mine: ((number, nothing) for number, _ in mine))
    for count in (10, 1_000):
        spark = Spark()
        wanted = tuple(RangeToCopy(tp=TopicPartition("t", number), start=0, end=1, size_hint=1) for number in range(count))
        spec = BackupSpec(application_id="a", ranges=wanted, compression_level=3)
        result = range_copy.copy_ranges(cast("SparkContext", spark), spec, cast("Any", None))
        assert result.ranges == ()
        sizes.append(len(spark.closure))
    assert sizes[0] == sizes[1]
