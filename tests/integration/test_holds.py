"""Holds on a real broker: what a crashed run left is put back by the next, and restored records keep theirs as long as they need it."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK, marked, owner_config
from streams_recovery.core.topic_holds.log import HoldPurpose, TopicHold, restore_hold
from streams_recovery.core.waiting import poll
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.applications.topic_records import delete_below, produce_at

CONFIG = """
version: 1
name: held
application: {{id: {id}, guarantee: exactly_once_v2}}
topics: {{inputs: [orders]}}
storage: {{backend: filesystem, path: {path}}}
backup: {{survive_cluster_loss: false}}
runs: {{kind: command, command: {{status: ["true"], stop: ["true"], start: ["true"], wipe: ["true"]}}}}
"""


@pytest.fixture
def recovery(bootstrap: str, tmp_path: Path) -> Iterator[RecoveryContext]:
    (tmp_path / "held.yaml").write_text(CONFIG.format(id=f"held-{uuid.uuid4().hex[:8]}", path=tmp_path / "repository"))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    with open_context(load_named("held", tmp_path, {}), EnvironmentConnections(kafka)) as opened:
        yield opened


def changelog(recovery: RecoveryContext, store: str, config: dict[str, str]) -> str:
    name = f"{recovery.application_id}-{store}-changelog"
    recovery.cluster.create_topic(name, partitions=1, replication_factor=1, config=config)
    return name


def config_of(recovery: RecoveryContext, topic: str) -> dict[str, str]:
    return recovery.cluster.describe_topics([topic])[topic].config


def guarded(recovery: RecoveryContext, run: str, topic: str) -> int:
    return topic_holds.guard(recovery, run, recovery.cluster.describe_topics([topic]).values())


def restored(recovery: RecoveryContext, store: str, final: dict[str, str]) -> str:
    """A topic as a restore leaves it: under hold, and with a record in the hold log."""
    topic = changelog(recovery, store, restore_hold(final))
    hold = TopicHold(topic=topic, topic_id=recovery.cluster.describe_topics([topic])[topic].topic_id)
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, "restore", RESTORE_MARK, (hold,))
    return topic


@contextmanager
def with_global(recovery: RecoveryContext, tmp_path: Path, topic: str) -> Iterator[RecoveryContext]:
    """The application with this global topic in its configuration."""
    text = (tmp_path / "held.yaml").read_text()
    (tmp_path / "held.yaml").write_text(text.replace("{inputs: [orders]}", f"{{inputs: [orders], globals: [{topic}]}}"))
    extra = {"bootstrap.servers": recovery.connection.bootstrap_servers}
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}
    with open_context(load_named("held", tmp_path, {}), EnvironmentConnections(kafka)) as declared:
        yield declared


@pytest.mark.deep
@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    "before",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact", "min.compaction.lag.ms": "5000"},
        {"cleanup.policy": "compact,delete", "max.compaction.lag.ms": "60000"},
    ],
)
def test_a_guard_that_a_killed_run_left_is_released_by_the_next(recovery: RecoveryContext, before: dict[str, str]) -> None:
    topic = changelog(recovery, "totals", before)
    mark = guarded(recovery, "killed", topic)
    assert marked(config_of(recovery, topic), mark)
    # The process is gone; another one opens the same repository.
    assert [(item.run, item.mark) for item in topic_holds.outstanding(recovery)] == [("killed", mark)]
    assert topic_holds.release_copy_holds(recovery) == (topic,)
    assert config_of(recovery, topic) == before
    assert topic_holds.outstanding(recovery) == ()
    topic_holds.require_guard(recovery, guarded(recovery, "next", topic), [topic])


@pytest.mark.fault("F2")
def test_a_guard_on_a_topic_that_left_the_configuration_stays_on_record(
    recovery: RecoveryContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"customers-{uuid.uuid4().hex[:8]}"
    recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    mark = guarded(recovery, "killed", topic)
    assert topic_holds.release_copy_holds(recovery) == ()
    assert marked(config_of(recovery, topic), mark)
    assert f"no topics of {recovery.application_id}: ['{topic}']" in caplog.text
    assert "declare" in caplog.text
    assert [item.hold.topic for item in topic_holds.outstanding(recovery)] == [topic], "the warning comes again"
    with with_global(recovery, tmp_path, topic) as declared:
        assert topic_holds.release_copy_holds(declared) == (topic,)
        assert config_of(recovery, topic) == {"cleanup.policy": "compact"}
        assert topic_holds.outstanding(declared) == ()
    recovery.cluster.delete_topics([topic])


@pytest.mark.deep
@pytest.mark.parametrize("days", [-1, 8], ids=["of the future", "after a week"])
def test_but_not_for_ever_nor_when_the_topic_is_gone(recovery: RecoveryContext, days: int) -> None:
    topic = f"customers-{uuid.uuid4().hex[:8]}"
    recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    guarded(recovery, "killed", topic)
    later = replace(recovery, clock=lambda: recovery.clock() + days * DAY_MS)
    topic_holds.release_copy_holds(later)
    assert topic_holds.outstanding(recovery) == ()
    guarded(recovery, "killed too", topic)
    recovery.cluster.delete_topics([topic])
    topic_holds.release_copy_holds(recovery)
    assert topic_holds.outstanding(recovery) == ()


def test_a_guard_over_a_guard_remembers_what_was_there_first(recovery: RecoveryContext) -> None:
    topic = changelog(recovery, "totals", {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"})
    for run in ("first", "second"):
        guarded(recovery, run, topic)
    topic_holds.release_copy_holds(recovery)
    assert config_of(recovery, topic) == {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"}


def test_a_topic_that_was_made_again_is_left_as_it_is(recovery: RecoveryContext) -> None:
    topic = changelog(recovery, "totals", {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"})
    guarded(recovery, "killed", topic)
    recovery.cluster.delete_topics([topic])
    changelog(recovery, "totals", {"cleanup.policy": "compact"})
    topic_holds.release_copy_holds(recovery)
    assert config_of(recovery, topic) == {"cleanup.policy": "compact"}
    assert topic_holds.outstanding(recovery) == ()


def test_a_topic_that_was_made_again_under_a_restore_s_hold_is_guarded_like_any_other(recovery: RecoveryContext) -> None:
    topic = restored(recovery, "totals", {"cleanup.policy": "compact"})
    recovery.cluster.delete_topics([topic])
    changelog(recovery, "totals", {"cleanup.policy": "compact"})
    mark = guarded(recovery, "run", topic)
    assert marked(config_of(recovery, topic), mark)


def test_a_restored_topic_is_guarded_beside_its_hold(recovery: RecoveryContext) -> None:
    final = {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS), "max.compaction.lag.ms": "600000"}
    topic = restored(recovery, "windows", final)
    produce_at(recovery, topic, time.time_ns() // 1_000_000)
    mark = guarded(recovery, "run", topic)
    assert topic_holds.release_restore_holds(recovery) == ()
    assert owner_config(config_of(recovery, topic)) == final
    topic_holds.require_guard(recovery, mark, [topic])
    topic_holds.release_copy_holds(recovery)
    assert config_of(recovery, topic) == final


@pytest.mark.fault("F34")
@pytest.mark.parametrize(
    "final",
    [
        {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)},
        {"cleanup.policy": "compact,delete"},
        {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2 * DAY_MS)},
    ],
    ids=["window store", "retention of the broker", "versioned store"],
)
def test_restored_records_keep_their_hold_until_none_would_expire(recovery: RecoveryContext, final: dict[str, str]) -> None:
    topic = restored(recovery, "windows", final)
    now = time.time_ns() // 1_000_000
    produce_at(recovery, topic, now - 30 * DAY_MS)
    assert topic_holds.release_restore_holds(recovery) == (topic,)
    assert int(config_of(recovery, topic)["retention.ms"]) > now
    produce_at(recovery, topic, now)
    assert topic_holds.release_restore_holds(recovery) == ()
    assert config_of(recovery, topic) == final
    assert topic_holds.outstanding(recovery) == ()


@pytest.mark.fault("F85")
def test_of_a_global_topic_the_oldest_record_keeps_the_hold_and_what_is_due_is_named(recovery: RecoveryContext, tmp_path: Path) -> None:
    topic, now = f"customers-{uuid.uuid4().hex[:8]}", time.time_ns() // 1_000_000
    final = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS), "segment.ms": str(DAY_MS)}
    created = recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=restore_hold(final))
    hold = TopicHold(topic=topic, topic_id=created.topic_id)
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, "restore", RESTORE_MARK, (hold,))
    produce_at(recovery, topic, now - 30 * DAY_MS)
    produce_at(recovery, topic, now - 15 * DAY_MS // 2)
    produce_at(recovery, topic, now)
    with with_global(recovery, tmp_path, topic) as declared:
        assert topic_holds.release_restore_holds(declared) == (topic,), "no such retention has kept a record of a month ago"
        assert topic_holds.about_to_expire(declared, [topic]) == (), "nothing goes while it is held"
        delete_below(declared, TopicPartition(topic, 0), 1)
        assert topic_holds.release_restore_holds(declared) == (), "the next one is due, as it was before"
        assert config_of(declared, topic) == final
        (line,) = topic_holds.about_to_expire(declared, [topic])
        assert line.startswith(f"{topic}: 1 offsets at its beginning are older than retention.ms={7 * DAY_MS}")
    recovery.cluster.delete_topics([topic])


MIB = 1 << 20


@pytest.mark.fault("F106")
def test_what_is_more_than_retention_bytes_keeps_stays_until_newer_records_fill_it(recovery: RecoveryContext, tmp_path: Path) -> None:
    topic, now = f"customers-{uuid.uuid4().hex[:8]}", time.time_ns() // 1_000_000
    final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": str(2 * MIB), "segment.bytes": str(MIB)}
    created = recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=restore_hold(final))
    tp, hold = TopicPartition(topic, 0), TopicHold(topic=topic, topic_id=created.topic_id)
    filled(recovery, topic, now - DAY_MS, 6)
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, "restore", RESTORE_MARK, (hold,))
    with with_global(recovery, tmp_path, topic) as declared:
        assert topic_holds.release_restore_holds(declared) == (topic,), "no such limit has left so much"
        assert owner_config(config_of(declared, topic)) == final
        assert topic_holds.about_to_expire(declared, [topic]) == ()
        time.sleep(3)  # The broker looks each second.
        assert declared.cluster.log_starts([tp])[tp] == 0, "every record is still there"
        filled(declared, topic, now + 60_000, 3)
        assert topic_holds.release_restore_holds(declared) == (), "what came later fills it by itself"
        assert config_of(declared, topic) == final
        (line,) = topic_holds.about_to_expire(declared, [topic])
        assert f"more than retention.bytes={2 * MIB}: the broker may delete its oldest records from now on" in line
        assert poll(lambda: declared.cluster.log_starts([tp])[tp] or None, seconds=30, interval=0.5), "as its owner wants it"
    recovery.cluster.delete_topics([topic])


@pytest.mark.fault("F106")
def test_what_such_a_limit_may_have_left_goes_back_under_it(recovery: RecoveryContext, tmp_path: Path) -> None:
    topic, now = f"customers-{uuid.uuid4().hex[:8]}", time.time_ns() // 1_000_000
    final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": str(6 * MIB), "segment.bytes": str(MIB)}
    created = recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=restore_hold(final))
    hold = TopicHold(topic=topic, topic_id=created.topic_id)
    filled(recovery, topic, now - DAY_MS, 6)
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, "restore", RESTORE_MARK, (hold,))
    with with_global(recovery, tmp_path, topic) as declared:
        assert topic_holds.release_restore_holds(declared) == ()
        assert config_of(declared, topic) == final
    recovery.cluster.delete_topics([topic])


def filled(recovery: RecoveryContext, topic: str, at: int, mebibytes: int) -> None:
    """So many records of nearly a mebibyte."""
    producer = Producer({**recovery.connection.client_config(), "message.max.bytes": 2 * MIB})
    for _ in range(mebibytes):
        producer.produce(topic, os.urandom(MIB - 4_096), b"k", 0, timestamp=at)
        assert producer.flush(30) == 0
