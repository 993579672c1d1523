"""Holds on a real broker: what a crashed run left is put back by the next, and restored records keep theirs as long as they need it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK, marked, owner_config
from streams_recovery.core.topic_holds.log import HoldPurpose, TopicHold, restore_hold
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import Workbench, open_workbench

DAY_MS = 86_400_000
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
def bench(bootstrap: str, tmp_path: Path) -> Iterator[Workbench]:
    (tmp_path / "held.yaml").write_text(CONFIG.format(id=f"held-{uuid.uuid4().hex[:8]}", path=tmp_path / "repository"))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    with open_workbench(load_named("held", tmp_path, {}), EnvironmentConnections(kafka)) as opened:
        yield opened


def changelog(bench: Workbench, store: str, config: dict[str, str]) -> str:
    name = f"{bench.application_id}-{store}-changelog"
    bench.cluster.create_topic(name, partitions=1, replication_factor=1, config=config)
    return name


def config_of(bench: Workbench, topic: str) -> dict[str, str]:
    return bench.cluster.describe_topics([topic])[topic].config


def produce(bench: Workbench, topic: str, timestamp: int) -> None:
    producer = Producer({"bootstrap.servers": bench.connection.bootstrap_servers, "log_level": 0})
    producer.produce(topic, b"v", b"k", 0, timestamp=timestamp)
    assert producer.flush(30) == 0


def guarded(bench: Workbench, run: str, topic: str) -> int:
    return topic_holds.guard(bench, run, bench.cluster.describe_topics([topic]).values())


def restored(bench: Workbench, store: str, final: dict[str, str]) -> str:
    """A topic as a restore leaves it: under hold, and with a record in the hold log."""
    topic = changelog(bench, store, restore_hold(final))
    hold = TopicHold(topic=topic, topic_id=bench.cluster.describe_topics([topic])[topic].topic_id)
    topic_holds.record(bench, "applied", HoldPurpose.RESTORE, "restore", RESTORE_MARK, (hold,))
    return topic


@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    "before",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact", "min.compaction.lag.ms": "5000"},
        {"cleanup.policy": "compact,delete", "max.compaction.lag.ms": "60000"},
    ],
)
def test_a_guard_that_a_killed_run_left_is_released_by_the_next(bench: Workbench, before: dict[str, str]) -> None:
    topic = changelog(bench, "totals", before)
    mark = guarded(bench, "killed", topic)
    assert marked(config_of(bench, topic), mark)
    # The process is gone; another one opens the same repository.
    assert [(item.run, item.mark) for item in topic_holds.outstanding(bench)] == [("killed", mark)]
    assert topic_holds.release_copy_holds(bench) == (topic,)
    assert config_of(bench, topic) == before
    assert topic_holds.outstanding(bench) == ()
    topic_holds.require_guard(bench, guarded(bench, "next", topic), [topic])


@pytest.mark.fault("F2")
def test_a_guard_on_a_topic_that_left_the_configuration_stays_on_record(
    bench: Workbench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"customers-{uuid.uuid4().hex[:8]}"
    bench.cluster.create_topic(topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    mark = guarded(bench, "killed", topic)
    assert topic_holds.release_copy_holds(bench) == ()
    assert marked(config_of(bench, topic), mark)
    assert f"no topics of {bench.application_id}: ['{topic}']" in caplog.text
    assert "declare" in caplog.text
    assert [item.hold.topic for item in topic_holds.outstanding(bench)] == [topic], "the warning comes again"
    text = (tmp_path / "held.yaml").read_text()
    (tmp_path / "held.yaml").write_text(text.replace("{inputs: [orders]}", f"{{inputs: [orders], globals: [{topic}]}}"))
    kafka = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bench.connection.bootstrap_servers}})
    }
    with open_workbench(load_named("held", tmp_path, {}), EnvironmentConnections(kafka)) as declared:
        assert topic_holds.release_copy_holds(declared) == (topic,)
        assert config_of(bench, topic) == {"cleanup.policy": "compact"}
        assert topic_holds.outstanding(declared) == ()
    bench.cluster.delete_topics([topic])


@pytest.mark.parametrize("days", [-1, 8], ids=["of the future", "after a week"])
def test_but_not_for_ever_nor_when_the_topic_is_gone(bench: Workbench, days: int) -> None:
    topic = f"customers-{uuid.uuid4().hex[:8]}"
    bench.cluster.create_topic(topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    guarded(bench, "killed", topic)
    later = replace(bench, clock=lambda: bench.clock() + days * DAY_MS)
    topic_holds.release_copy_holds(later)
    assert topic_holds.outstanding(bench) == ()
    guarded(bench, "killed too", topic)
    bench.cluster.delete_topics([topic])
    topic_holds.release_copy_holds(bench)
    assert topic_holds.outstanding(bench) == ()


def test_a_guard_over_a_guard_remembers_what_was_there_first(bench: Workbench) -> None:
    topic = changelog(bench, "totals", {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"})
    for run in ("first", "second"):
        guarded(bench, run, topic)
    topic_holds.release_copy_holds(bench)
    assert config_of(bench, topic) == {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"}


def test_a_topic_that_was_made_again_is_left_as_it_is(bench: Workbench) -> None:
    topic = changelog(bench, "totals", {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"})
    guarded(bench, "killed", topic)
    bench.cluster.delete_topics([topic])
    changelog(bench, "totals", {"cleanup.policy": "compact"})
    topic_holds.release_copy_holds(bench)
    assert config_of(bench, topic) == {"cleanup.policy": "compact"}
    assert topic_holds.outstanding(bench) == ()


def test_a_topic_that_was_made_again_under_a_restore_s_hold_is_guarded_like_any_other(bench: Workbench) -> None:
    topic = restored(bench, "totals", {"cleanup.policy": "compact"})
    bench.cluster.delete_topics([topic])
    changelog(bench, "totals", {"cleanup.policy": "compact"})
    mark = guarded(bench, "run", topic)
    assert marked(config_of(bench, topic), mark)


def test_a_restored_topic_is_guarded_beside_its_hold(bench: Workbench) -> None:
    final = {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS), "max.compaction.lag.ms": "600000"}
    topic = restored(bench, "windows", final)
    produce(bench, topic, time.time_ns() // 1_000_000)
    mark = guarded(bench, "run", topic)
    assert topic_holds.release_restore_holds(bench) == ()
    assert owner_config(config_of(bench, topic)) == final
    topic_holds.require_guard(bench, mark, [topic])
    topic_holds.release_copy_holds(bench)
    assert config_of(bench, topic) == final


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
def test_restored_records_keep_their_hold_until_none_would_expire(bench: Workbench, final: dict[str, str]) -> None:
    topic = restored(bench, "windows", final)
    now = time.time_ns() // 1_000_000
    produce(bench, topic, now - 30 * DAY_MS)
    assert topic_holds.release_restore_holds(bench) == (topic,)
    assert int(config_of(bench, topic)["retention.ms"]) > now
    produce(bench, topic, now)
    assert topic_holds.release_restore_holds(bench) == ()
    assert config_of(bench, topic) == final
    assert topic_holds.outstanding(bench) == ()
