"""A savepoint from a real broker is reduced by a real submission, audited, continued, and restored from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from spark_jobs.transforms.check import audit_file
from streams_recovery.cli.runner import Runner
from streams_recovery.config.application import Store
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.repository.check import AuditReport, AuditResult, AuditSpec
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.engine.submitter import Submitter
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import maintenance, restore
from streams_recovery.operations.compaction import CompactRequest
from streams_recovery.operations.context import Workbench
from tests.integration.restoring import loaded
from tests.integration.small import Small, asked, left, published, rows_of

Row = dict[str, object]


def write(small: Small, *records: tuple[bytes, bytes | None]) -> None:
    """What a store logs."""
    producer = Producer({"bootstrap.servers": small.bench.connection.bootstrap_servers, "log_level": 0})
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


def on_the_broker(bench: Workbench, tp: TopicPartition) -> dict[object, tuple[object, ...]]:
    """The state that the topic stands for now."""
    start, end = bench.cluster.log_starts([tp])[tp], bench.cluster.high_watermarks([tp])[tp]
    with RangeReader(bench.connection, tp, start, end) as reader:
        rows = living([row for batch in reader for row in batch.to_pylist()])
    return {row["key"]: (row["value"], row["timestamp"], str(row["headers"])) for row in rows}


def audited(bench: Workbench) -> AuditReport:
    """All savepoints read whole, here instead of in tasks."""
    ticket = maintenance.plan_audit(bench, savepoint=maintenance.ALL, level="full", run_id="audit")
    job = maintenance.plan_reading(bench, ticket)
    assert job.spec is not None
    assert job.result_key is not None
    files = bench.notes.read(AuditSpec, job.spec).files
    done = AuditResult(files=tuple(audit_file(bench.repository, bench.layout, wanted) for wanted in files), seconds=0)
    return maintenance.conclude_audit(bench, ticket, left(bench, job.result_key, done))


def restored(bench: Workbench, savepoint: Manifest) -> int:
    """Topics replaced by what is in the savepoint, up to the check of what was loaded; the rows in it. Loaded here instead of in tasks."""
    request = asked(bench, savepoint=savepoint.savepoint_id, replace=True, safety=restore.SafetyPolicy.SKIP)
    ticket = restore.open_restore(bench, request, run_id="r", requested_by="test", approved_hash=restore.plan(bench, request).hash)
    try:
        restore.stop(bench, ticket)
        restore.keep_state(bench, ticket, restore.save_state(bench, ticket))
        return loaded(bench, ticket)
    finally:
        restore.abandon(bench, ticket)


def rows_to_load(bench: Workbench, savepoint: Manifest) -> int:
    return restore.plan(bench, asked(bench, savepoint=savepoint.savepoint_id, replace=True)).rows


def loaded_reduced(bench: Workbench, savepoint: Manifest) -> list[str]:
    """Topics whose keys are compared after a load, because that is not of the log as it was."""
    planned = restore.plan(bench, asked(bench, savepoint=savepoint.savepoint_id, replace=True))
    return [step.name for step in planned.create if any(part.reduced for part in step.partitions)]


@pytest.mark.spark
def test_a_savepoint_is_reduced_continued_and_restored(small: Small, in_session: Submitter) -> None:
    bench = replace(small.bench, config=small.bench.config.model_copy(update={"stores": {"totals": Store(kind=StoreKind.KEY_VALUE)}}))
    small = replace(small, bench=bench)
    write(small, *updates(300))
    published(small)
    write(small, *updates(60, start=300))
    source = published(small)
    runner = Runner(bench=bench, submitter=in_session, say=lambda line: None)  # noqa: ARG005
    request = CompactRequest(savepoint="latest", run_id="r", requested_by="test", reason="smaller")
    done = runner.compact(request)
    assert done is not None
    reduced = bench.savepoints.read(done.savepoint_id)
    assert bench.savepoints.latest() == reduced
    expected = living(rows_of(bench, source, small.changelog))
    assert rows_of(bench, reduced, small.changelog) == expected
    assert 0 < len(expected) < 10, "some keys live and some are deleted"
    assert (done.source_id, done.rows_before, done.rows_after, done.keys_compared) == (source.savepoint_id, 364, len(expected), 10)
    assert rows_of(bench, reduced, small.tail) == rows_of(bench, source, small.tail)
    assert audited(bench).good
    assert (rows_to_load(bench, source), rows_to_load(bench, reduced)) == (364 + 3, len(expected) + 3)
    assert (loaded_reduced(bench, source), loaded_reduced(bench, reduced)) == ([], [small.changelog.topic])
    assert runner.compact(replace(request, run_id="again")) is None, "there is nothing left to reduce"

    write(small, *updates(25, start=360))
    truth = on_the_broker(bench, small.changelog)
    continued = published(small)
    assert continued.parent_id == reduced.savepoint_id
    before, after = (one.topic(small.changelog.topic) for one in (reduced, continued))
    assert before is not None
    assert after is not None
    assert after.partitions[0].ranges[: len(before.partitions[0].ranges)] == before.partitions[0].ranges
    assert (after.rows - before.rows, after.full_since) == (25, source.captured_at)
    assert audited(bench).good

    assert restored(bench, continued) == after.rows + 3
    assert on_the_broker(bench, small.changelog) == truth
