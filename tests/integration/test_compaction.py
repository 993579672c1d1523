"""A savepoint from a real broker is compacted by a real submission, checked, continued, and restored from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from spark_jobs.transforms.check import check_file
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.application import Store
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.repository.check import CheckReport, CheckResult, CheckSpec
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.engine.submitter import Submitter
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import maintenance, restore
from streams_recovery.operations.compaction import CompactRequest, How
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, asked, rows_of
from tests.support.repository.stored import left

Row = dict[str, object]


def write(small: Small, *records: tuple[bytes, bytes | None]) -> None:
    """What a store logs."""
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    for key, value in records:
        producer.produce(small.changelog.topic, value, key, small.changelog.partition, headers=[("h", key)])
    assert producer.flush(30) == 0


def updates(count: int, *, start: int = 0) -> list[tuple[bytes, bytes | None]]:
    """Ten keys over and over; every seventh record deletes one or leaves it empty."""
    values = {0: None, 7: b""}
    return [(b"k%d" % (number % 10), values.get(number % 14, b"v%d" % number)) for number in range(start, start + count)]


def living(rows: list[Row]) -> list[Row]:
    """The newest row of each key that has a value, by walking through all of them."""
    newest = {row["key"]: row for row in rows}
    return [row for row in rows if newest[row["key"]] is row and row["value"] is not None]


def on_the_broker(recovery: RecoveryContext, tp: TopicPartition) -> dict[object, tuple[object, ...]]:
    """The state that the topic stands for now."""
    start, end = recovery.cluster.log_starts([tp])[tp], recovery.cluster.high_watermarks([tp])[tp]
    with RangeReader(recovery.connection, tp, start, end) as reader:
        rows = living([row for batch in reader for row in batch.to_pylist()])
    return {row["key"]: (row["value"], row["timestamp"], str(row["headers"])) for row in rows}


def checked(recovery: RecoveryContext) -> CheckReport:
    """All savepoints read whole, here instead of in tasks."""
    ticket = maintenance.plan_check(recovery, savepoint=maintenance.ALL, level="full", run_id="check")
    job = maintenance.plan_reading(recovery, ticket)
    assert job.spec is not None
    assert job.result_key is not None
    files = recovery.artifacts.read(CheckSpec, job.spec).files
    done = CheckResult(files=tuple(check_file(recovery.repository, recovery.layout, wanted) for wanted in files), seconds=0)
    return maintenance.conclude_check(recovery, ticket, left(recovery, job.result_key, done))


def rows_to_load(recovery: RecoveryContext, savepoint: Manifest) -> int:
    return restore.plan(recovery, asked(recovery, savepoint=savepoint.savepoint_id, replace=True)).rows


def loaded_compacted(recovery: RecoveryContext, savepoint: Manifest) -> list[str]:
    """Topics whose keys are compared after a load, because that is not of the log as it was."""
    planned = restore.plan(recovery, asked(recovery, savepoint=savepoint.savepoint_id, replace=True))
    return [step.name for step in planned.create if any(part.compacted for part in step.partitions)]


@pytest.mark.way("compaction")
@pytest.mark.spark
def test_a_savepoint_is_compacted_continued_and_restored(small: Small, in_session: Submitter) -> None:
    recovery = replace(
        small.recovery, config=small.recovery.config.model_copy(update={"stores": {"totals": Store(kind=StoreKind.KEY_VALUE)}})
    )
    small = replace(small, recovery=recovery)
    write(small, *updates(300))
    published(small)
    write(small, *updates(60, start=300))
    source = published(small)
    runner = Runner(recovery=recovery, submitter=in_session, say=lambda line: None)  # noqa: ARG005
    request = CompactRequest(savepoint="latest", how=How.LATEST_PER_KEY, run_id="r", requested_by="test", reason="smaller")
    done = runs.compact(runner, request)
    assert done is not None
    compacted = recovery.savepoints.read(done.savepoint_id)
    assert recovery.savepoints.latest() == compacted
    expected = living(rows_of(recovery, source, small.changelog))
    assert rows_of(recovery, compacted, small.changelog) == expected
    assert 0 < len(expected) < 10, "some keys live and some are deleted"
    assert (done.source_id, done.rows_before, done.rows_after, done.keys_compared) == (source.savepoint_id, 364, len(expected), 10)
    assert rows_of(recovery, compacted, small.tail) == rows_of(recovery, source, small.tail)
    assert checked(recovery).good
    assert (rows_to_load(recovery, source), rows_to_load(recovery, compacted)) == (364 + 3, len(expected) + 3)
    assert (loaded_compacted(recovery, source), loaded_compacted(recovery, compacted)) == ([], [small.changelog.topic])
    assert runs.compact(runner, replace(request, run_id="again")) is None, "there is nothing left to compact"

    write(small, *updates(25, start=360))
    truth = on_the_broker(recovery, small.changelog)
    continued = published(small)
    assert continued.parent_id == compacted.savepoint_id
    before, after = (one.topic(small.changelog.topic) for one in (compacted, continued))
    assert before is not None
    assert after is not None
    assert after.partitions[0].ranges[: len(before.partitions[0].ranges)] == before.partitions[0].ranges
    assert (after.rows - before.rows, after.full_since) == (25, source.captured_at)
    assert checked(recovery).good

    assert restored(recovery, continued) == after.rows + 3
    assert on_the_broker(recovery, small.changelog) == truth
