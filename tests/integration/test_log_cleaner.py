"""The log cleaner at work: a key that was deleted stays deleted, and nothing that was restored is cleaned before it may be."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but its stubs do not say so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from spark_jobs.access import JobAccess
from spark_jobs.transforms.read_back import digest_of_range
from streams_recovery.core.jobs.spec import BackupResult
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.topic_holds.compaction_guard import MIN_COMPACTION_LAG
from streams_recovery.core.waiting import poll
from streams_recovery.operations import restore, savepoint, topic_holds
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import load_of, loaded, opened, saved
from tests.support.applications.savepoint_steps import begun, copy, publish
from tests.support.applications.small import Small, asked, lose_state, rows_of, small_application, with_policy
from tests.support.applications.topic_records import commit, produce
from tests.support.examples.rows import rows_in
from tests.support.kafka.cleaner import EAGER, ROWS, await_cleaner, updated
from tests.support.kafka.records import read
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka

# A segment each fifth of a second of event time, and the cleaner comes for any of them at once and keeps no deletion.
AT_ONCE = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "200", "delete.retention.ms": "0"}


@pytest.fixture
def table(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """The application with its input, which is compacted, in the savepoint too."""
    with small_application(bootstrap, tmp_path, topics={"include": ["*.in"]}) as found:
        alter(found.recovery.cluster, {found.input.topic: dict(AT_ONCE)})
        yield found


def wrote(recovery: RecoveryContext, tp: TopicPartition, rows: Mapping[bytes, bytes | None]) -> None:
    """Each of them a second of event time after the one before, from now on."""
    producer = Producer(recovery.connection.client_config())
    for number, (key, value) in enumerate(rows.items()):
        producer.produce(tp.topic, value, key, tp.partition, timestamp=time.time_ns() // 1_000_000 + 1_000 * number)
        assert producer.flush(30) == 0


def alive(recovery: RecoveryContext, manifest: Manifest, tp: TopicPartition) -> set[object]:
    """Keys with a value, as whoever loads the archive has them."""
    newest = {row["key"]: row["value"] for row in rows_of(recovery, manifest, tp)}
    return {key for key, value in newest.items() if value is not None}


@pytest.mark.fault("F27")
def test_a_key_that_was_deleted_from_a_compacted_input_stays_deleted(table: Small) -> None:
    recovery, tp = table.recovery, table.input
    wrote(recovery, tp, {b"gone": b"v", b"stays": b"v"})
    first = recovery.savepoints.read(publish(table))
    assert {b"gone", b"stays"} <= alive(recovery, first, tp)
    wrote(recovery, tp, {b"gone": None, b"later": b"v", b"last": b"v"})

    def forgotten() -> bool | None:
        # The cleaner comes only for something new, and to a deletion twice.
        wrote(recovery, tp, {b"last": b"v"})
        return b"gone" not in keys(recovery, tp) or None

    assert poll(forgotten, seconds=120, interval=0.5)
    commit(recovery, {tp: 5})
    second = recovery.savepoints.read(publish(table))
    assert alive(recovery, second, tp) == {b"k0", b"k1", b"k2", b"k3", b"k4", b"stays", b"later", b"last"}


@pytest.mark.deep
@pytest.mark.fault("F27")
def test_a_deletion_that_is_missing_is_not_made_up_for_by_records_that_were_fetched_ahead(small: Small) -> None:
    """As many records come behind the cut as the cleaner has taken: the consumer received no fewer than there are offsets."""
    recovery, tp = small.recovery, small.changelog
    kept = {"delete.retention.ms": str(DAY_MS)}
    alter(recovery.cluster, {tp.topic: AT_ONCE | kept})
    wrote(recovery, tp, {b"gone": b"v", b"stays": b"v"})
    first = recovery.savepoints.read(publish(small))
    alter(recovery.cluster, {tp.topic: dict(AT_ONCE)})
    wrote(recovery, tp, {b"gone": None, b"later": b"v", b"last": b"v"})

    def forgotten() -> bool | None:
        wrote(recovery, tp, {b"last": b"v"})
        return b"gone" not in keys(recovery, tp) or None

    assert poll(forgotten, seconds=120, interval=0.5)
    alter(recovery.cluster, {tp.topic: AT_ONCE | kept})
    # The application is down, and somebody writes: that alone is not exact.
    recovery = with_policy(recovery, require="ahead_allowed")
    ticket = begun(recovery)
    try:
        taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        produce(recovery, tp, 200)
        plan, result = copy(recovery, ticket, taken)
        assert result is not None
        (piece,) = [one for one in recovery.artifacts.read(BackupResult, result).ranges if one.tp == tp]
        rows, span = 0 if piece.copied.file is None else piece.copied.file.rows, piece.copied.end - piece.copied.start
        assert rows < span <= piece.fetched, "else this shows nothing"
        summary = savepoint.publish(recovery, ticket, savepoint.gather(recovery, ticket, plan, result).copied)
    finally:
        savepoint.finish(recovery, ticket)
    second = recovery.savepoints.read(summary.savepoint_id)
    assert second.parent_id == first.savepoint_id
    assert second.provenance.deletions_kept_since == {tp.topic: first.captured_at}, "it shares files, so it says what it takes for granted"


def keys(recovery: RecoveryContext, tp: TopicPartition) -> set[object]:
    return {row[1] for row in rows_in(read(recovery.connection, tp, 0, recovery.cluster.high_watermarks([tp])[tp]))}


@pytest.mark.deep
@pytest.mark.fault("F27")
def test_how_long_a_deletion_is_kept_may_be_the_broker_s_own_setting(own_bootstrap: str, tmp_path: Path) -> None:
    with small_application(own_bootstrap, tmp_path) as small:
        recovery = small.recovery
        first = recovery.savepoints.read(publish(small))
        shared = recovery.savepoints.read(publish(small))
        assert shared.parent_id == first.savepoint_id
        setting = ConfigEntry("log.cleaner.delete.retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
        admin = AdminClient({"bootstrap.servers": own_bootstrap, "log_level": 0})
        for future in admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[setting])]).values():
            future.result(30)
        assert poll(
            lambda: recovery.cluster.settings([small.changelog.topic])[small.changelog.topic]["delete.retention.ms"] == "1" or None,
            seconds=30,
            interval=0.2,
        )
        again = recovery.savepoints.read(publish(small))
        image = again.topic(small.changelog.topic)
        assert image is not None
        assert (again.parent_id, image.full_since) == (None, again.captured_at)


@pytest.mark.fault("F35")
def test_every_row_is_there_although_the_cleaner_has_come_to_the_same_records_elsewhere(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    updated(recovery, tp)
    # Only now: all of it is one segment, the one that is written to, which the cleaner leaves alone.
    alter(recovery.cluster, {tp.topic: dict(EAGER)})
    publish(small)
    lose_state(small)
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    assert loaded(recovery, ticket) == 4 + ROWS + 3
    created = recovery.cluster.describe_topics([tp.topic])[tp.topic].config
    assert {key: created[key] for key in EAGER} == EAGER, "nothing but the hold keeps the cleaner away"

    await_cleaner(recovery)
    assert restore.plan_verify(recovery, ticket, load_of(ticket)).spec is None, "no log has changed since it was read back"
    proofs = {one.topic: one.rows for one in restore.check_verify(recovery, ticket, load_of(ticket), None).partitions}
    assert proofs[tp.topic] == 4 + ROWS
    access = JobAccess(connection=recovery.connection, location=recovery.repository.location, credentials=recovery.credentials)
    assert digest_of_range(access.connection, tp, 0, 4 + ROWS).rows == 4 + ROWS, "and all of it is there still"

    topic_holds.release_restore_holds(recovery)
    assert MIN_COMPACTION_LAG not in recovery.cluster.describe_topics([tp.topic])[tp.topic].config
    assert poll(lambda: len(rows_in(read(recovery.connection, tp, 0, 4 + ROWS))) < ROWS // 2 or None, seconds=120, interval=0.5), (
        "and then it comes"
    )
    restore.abandon(recovery, ticket)
