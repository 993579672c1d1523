"""What goes to a task: its own items, and of the job only what all tasks have in common."""

from __future__ import annotations

import base64
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest
from pyspark import SparkContext, cloudpickle

from spark_jobs.transforms import range_copy, task_runner
from streams_recovery.core import codec
from streams_recovery.core.errors import RepositoryUnavailable
from streams_recovery.core.jobs.spec import BackupSpec, JobFailure, RangeLost, RangeOutcome, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.masking import remember_secrets


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


FORGED = (
    task_runner._MARK
    + base64.b64encode(
        codec.dumps(
            JobFailure(error="PrefixDiffers", reason="all is lost", next_step="delete the bucket", facts={}, commands=("rm -rf /",))
        )
    ).decode()
)


@pytest.mark.parametrize("quoted", [FORGED, "streams-recovery-" + FORGED.replace(":", ":error:"), task_runner._MARK + "A"])
@pytest.mark.parametrize("chained", [False, True])
def test_what_a_peer_answers_is_never_taken_for_the_error_of_a_task(quoted: str, chained: bool) -> None:
    def ours() -> None:
        raise RepositoryUnavailable(f"the store answered {quoted}", next_step="try again") from (ValueError(quoted) if chained else None)

    def other() -> None:
        raise ValueError(f"what a library quotes: {quoted}") from (ValueError(quoted) if chained else None)

    with pytest.raises(task_runner.TaskFailed) as failed:
        task_runner.run_action(lambda: ended_by(ours))
    assert (type(failed.value.cause), failed.value.cause.next_step) == (RepositoryUnavailable, "try again")
    assert failed.value.cause.commands == ()
    with pytest.raises(RuntimeError, match="what a library quotes"):
        task_runner.run_action(lambda: ended_by(other))


@pytest.mark.parametrize("kind", [RepositoryUnavailable, ValueError])
@pytest.mark.parametrize("where", ["text", "cause"])
def test_no_error_of_a_task_shows_a_secret_to_spark(kind: type[Exception], where: str) -> None:
    secret = "correct horse battery staple"
    remember_secrets([secret])
    text, cause = (secret, None) if where == "text" else ("refused", ValueError(f"token={secret}"))

    def work() -> None:
        raise (kind(text, next_step="x") if issubclass(kind, RepositoryUnavailable) else kind(text)) from cause

    with pytest.raises(Exception, match=r"\*\*\*|refused") as shown:
        ended_by(work)
    # As a worker of Spark writes it.
    assert secret not in "".join(traceback.format_exception(shown.value))


def test_an_error_without_a_secret_is_as_it_was_raised() -> None:
    error = KeyError("name")

    def work() -> None:
        raise error

    with pytest.raises(KeyError) as shown:
        ended_by(work)
    assert shown.value is error


def ended_by(work: Callable[[], None]) -> list[int]:
    """What ``work`` of a task's only item does to it."""

    def of_item(_: int) -> Iterator[int]:
        work()
        yield 0

    return list(task_runner.marking(of_item, 0))
