"""What somebody else has put into the hold log changes no setting of any topic, and ends no hold that is still needed."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator

import pytest

from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.topic_holds.compaction_guard import COPY_MARKS, RESTORE_MARK, joined, marked, owner_config
from streams_recovery.core.topic_holds.log import HoldPurpose, TopicHold, restore_hold
from streams_recovery.operations import topic_holds
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import Small
from tests.support.applications.topic_records import produce_at

pytestmark = pytest.mark.kafka

OLD = {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)}


def forge(small: Small, topic: str, topic_id: str, purpose: str, mark: int) -> None:
    """An entry as somebody writes it who may create objects."""
    recovery = small.recovery
    topics = [{"topic": topic, "topic_id": topic_id}]
    entry = {"kind": "applied", "purpose": purpose, "run": "forged", "at": 1, "mark": mark, "clear": False, "topics": topics}
    number = len(list(recovery.repository.keys(recovery.layout.holds))) + 1
    recovery.repository.create(f"{recovery.layout.holds}{number:012}.json", json.dumps(entry).encode())


@pytest.fixture
def victim(small: Small) -> Iterator[str]:
    """A topic of somebody else, which is being copied and whose records were restored."""
    name = f"victim{uuid.uuid4().hex[:8]}"
    held = restore_hold(OLD)
    small.recovery.cluster.create_topic(
        name, partitions=1, replication_factor=1, config={**held, **joined(held, 7, time.time_ns() // 86_400 // 10**9)}
    )
    produce_at(small.recovery, name, time.time_ns() // 1_000_000)
    yield name
    small.recovery.cluster.delete_topics([name])


def config_of(small: Small, topic: str) -> dict[str, str]:
    return small.recovery.cluster.describe_topics([topic])[topic].config


def id_of(small: Small, topic: str) -> str:
    return small.recovery.cluster.describe_topics([topic])[topic].topic_id


@pytest.mark.fault("F63")
def test_nobody_else_s_topic_is_touched(small: Small, victim: str, caplog: pytest.LogCaptureFixture) -> None:
    before = config_of(small, victim)
    forge(small, victim, id_of(small, victim), "copy", 7)
    forge(small, victim, id_of(small, victim), "restore", RESTORE_MARK)
    forge(small, "no topic's name / at all", "", "copy", 7)
    forge(small, f"{small.recovery.application_id}-no topic's name-changelog", "", "restore", RESTORE_MARK)
    with caplog.at_level(logging.WARNING):
        take(small)
    assert config_of(small, victim) == before
    assert f"no topics of {small.recovery.application_id}: [" in caplog.text
    assert repr(victim) in caplog.text


@pytest.mark.deep
@pytest.mark.fault("F63")
@pytest.mark.parametrize("purpose", ["copy", "restore"])
def test_an_own_topic_that_nobody_holds_stays_as_it_is(small: Small, purpose: str) -> None:
    topic = small.changelog.topic
    for mark in (-1, RESTORE_MARK, *COPY_MARKS, 2**70):
        forge(small, topic, id_of(small, topic), purpose, mark)
    before = config_of(small, topic)
    take(small)
    assert config_of(small, topic) == before
    assert topic_holds.release_copy_holds(small.recovery) == ()


@pytest.mark.deep
@pytest.mark.fault("F63")
def test_a_restore_s_hold_does_not_end_before_its_time(small: Small) -> None:
    recovery, topic = small.recovery, f"{small.recovery.application_id}-windows-changelog"
    recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=restore_hold(OLD))
    produce_at(recovery, topic, time.time_ns() // 1_000_000 - 3 * DAY_MS)
    hold = TopicHold(topic=topic, topic_id=id_of(small, topic))
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, "restore", RESTORE_MARK, (hold,))
    for purpose in ("copy", "restore"):
        forge(small, topic, id_of(small, topic), purpose, RESTORE_MARK)
    take(small)
    assert marked(config_of(small, topic), RESTORE_MARK)
    assert owner_config(config_of(small, topic)) == OLD
    recovery.cluster.delete_topics([topic])
