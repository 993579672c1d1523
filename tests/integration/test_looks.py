"""What advice, groups and records of topics show on a real broker."""

from __future__ import annotations

import shlex

import pytest

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.state.inspection import RecordsRequest
from streams_recovery.core.topic_holds.compaction_guard import TIMESTAMP_BEFORE, TIMESTAMP_TYPES, held_value
from streams_recovery.core.topic_settings import LOG_APPEND, TIMESTAMP_TYPE
from streams_recovery.operations.preflight import before_backup
from streams_recovery.operations.state.records import records_of
from streams_recovery.operations.status.cluster import look_at_group
from streams_recovery.operations.status.info import application_info
from streams_recovery.operations.status.notices import advice, advice_facts
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import Small
from tests.support.applications.topic_records import produce
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


def test_advice_reads_settings_sizes_and_brokers(small: Small) -> None:
    facts = advice_facts(small.recovery)
    topics = {topic.name: topic for topic in facts.topics}
    assert topics[small.changelog.topic].role is TopicRole.CHANGELOG
    assert topics[small.changelog.topic].compacted
    assert sum(topics[small.input.topic].offsets) == small.recovery.cluster.high_watermarks([small.input])[small.input]
    assert (facts.brokers.count, facts.unreadable) == (1, ())
    assert topics[small.changelog.topic].replicas == (tuple(facts.brokers.racks),)
    assert facts.tools == small.recovery.connection.tools
    assert "cleanup.policy" in topics[small.changelog.topic].overrides
    assert all((topic.attributed, topic.held) == (True, False) for topic in facts.topics)


@pytest.mark.fault("F104")
def test_a_setting_that_loses_input_is_found_and_its_command_mends_it(small: Small) -> None:
    before = {(one.kind, one.subject) for one in advice(small.recovery)}
    alter(small.recovery.cluster, {small.input.topic: {"retention.ms": "60000", "cleanup.policy": "delete"}})
    (found,) = [one for one in advice(small.recovery) if (one.kind, one.subject) not in before]
    assert (found.kind, found.subject, found.severity) == ("input-retention", small.input.topic, Severity.CRITICAL)
    setting, value = shlex.split(found.remedies[0])[-1].split("=")
    alter(small.recovery.cluster, {small.input.topic: {setting: value}})
    assert found.cause not in {one.cause for one in advice(small.recovery)}


def test_a_hold_of_ours_is_no_setting_of_the_owner(small: Small) -> None:
    before = {one.cause for one in advice(small.recovery)}
    alter(small.recovery.cluster, {small.changelog.topic: {"min.compaction.lag.ms": "6000010000000000002"}})
    found = advice(small.recovery)
    assert {one.cause for one in found} == before
    (held,) = [topic for topic in advice_facts(small.recovery).topics if topic.held]
    assert held.name == small.changelog.topic
    assert [one.remedies for one in found if one.subject == held.name] == [() for one in found if one.subject == held.name]


def test_times_that_the_broker_replaces_again_after_a_hold_are_told_while_it_is_there(small: Small) -> None:
    """A restore holds CreateTime on what it has made, and remembers what the owner had."""
    held = held_value(TIMESTAMP_BEFORE, None, TIMESTAMP_TYPES.index(LOG_APPEND))
    alter(small.recovery.cluster, {small.changelog.topic: {TIMESTAMP_BEFORE: held, TIMESTAMP_TYPE: "CreateTime"}})
    assert "timestamps" in {one.kind for one in before_backup(small.recovery)}


def test_the_group_is_behind_by_what_was_written_since_its_commit(small: Small) -> None:
    before = look_at_group(small.recovery)
    assert before.group_id == small.recovery.application_id
    produce(small.recovery, small.input, 7)
    after = look_at_group(small.recovery)
    assert after.behind == before.behind + 7
    assert {one.role for one in after.partitions} <= {TopicRole.INPUT, TopicRole.REPARTITION}


@pytest.mark.way("look-up")
def test_records_are_the_same_live_and_in_a_savepoint(small: Small) -> None:
    take(small)
    for offset in (None, 0):
        live, saved = (
            records_of(small.recovery, RecordsRequest(topic=small.changelog.topic, savepoint=where, partition=0, offset=offset, count=3))
            for where in ("live", "latest")
        )
        assert live == saved
        assert 0 < len(live) <= 3
    with pytest.raises(NotFound, match="there is no topic gone"):
        records_of(small.recovery, RecordsRequest(topic="gone", savepoint="live", partition=None, offset=None, count=1))


@pytest.mark.deep
def test_info_tells_of_the_newest_savepoint(small: Small) -> None:
    take(small)
    found = application_info(small.recovery)
    assert found.savepoints == 1
    assert found.newest == found.newest_exact
    assert found.age_seconds is not None
