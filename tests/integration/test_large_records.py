"""Records that the target would not take by itself: its topics are made to take them. One that a topic does not take after all is named before it is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.topic_settings import InForce, SettingSource
from streams_recovery.core.waiting import poll
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import opened, saved, written
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, lose_state_and_group, small_application
from tests.support.applications.topic_records import produce
from tests.support.kafka.consumers import committed
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka

DEFAULT = 1_048_588
LARGE = 2_500_000


@pytest.fixture
def small(own_bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """On a broker of its own: these tests change what all topics of a broker take."""
    with small_application(own_bootstrap, tmp_path) as found:
        yield found


@contextmanager
def brokers_have(recovery: RecoveryContext, setting: str, value: str) -> Iterator[None]:
    """Brokers with another value of a setting."""
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    brokers = [str(number) for number in admin.list_topics(timeout=30).brokers]

    def alter_brokers(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        resources = [ConfigResource(ResourceType.BROKER, name, incremental_configs=[entry]) for name in brokers]
        for future in admin.incremental_alter_configs(resources).values():
            future.result(30)

    def told(*, other: bool) -> bool | None:
        return True if (recovery.cluster.facts().settings.get(setting) == value) is not other else None

    alter_brokers(AlterConfigOpType.SET)
    try:
        assert poll(lambda: told(other=False), seconds=60)
        yield
    finally:
        alter_brokers(AlterConfigOpType.DELETE)
        assert poll(lambda: told(other=True), seconds=60)


def send(small: Small, *sizes: int) -> None:
    settings = {"bootstrap.servers": small.recovery.connection.bootstrap_servers, "message.max.bytes": 12_000_000, "log_level": 0}
    producer = Producer(settings)
    for size in sizes:
        producer.produce(small.changelog.topic, os.urandom(size), b"large", 0)
    assert producer.flush(60) == 0


def alone(small: Small) -> None:
    """One large record among many small ones."""
    produce(small.recovery, small.changelog, 3_000)
    send(small, LARGE)
    publish(small)


@pytest.mark.fault("F32", "F86")
def test_one_large_record_among_many_is_restored_to_brokers_that_take_less_by_default(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    with brokers_have(recovery, "message.max.bytes", "6000000"):
        alone(small)
    lose_state_and_group(small)
    planned = restore.plan(recovery, asked(recovery))
    (step,) = (one for one in planned.create if one.name == tp.topic)
    assert step.final_config["max.message.bytes"] == "6000000", "what it took before it takes again"
    (line,) = (one for one in planned.warnings if one.startswith("max.message.bytes="))
    assert tp.topic in line
    assert str(DEFAULT) in line
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    restore.prepare(recovery, ticket)
    assert written(recovery, ticket) == 3_005 + 3
    restore.abandon(recovery, ticket)


@pytest.mark.deep
@pytest.mark.fault("F32", "F86")
def test_a_record_that_a_topic_does_not_take_stops_its_load_before_it_is_sent_and_the_load_goes_on_once_it_is_taken(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    with brokers_have(recovery, "message.max.bytes", "6000000"):
        alone(small)
    lose_state_and_group(small)
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    restore.prepare(recovery, ticket)
    # Somebody has lowered it in between.
    alter(recovery.cluster, {tp.topic: {"max.message.bytes": str(DEFAULT)}})
    with pytest.raises(Refused) as caught:
        written(recovery, ticket)
    assert (
        caught.value.facts["topic"],
        caught.value.facts["archived_offset"],
        caught.value.facts["bytes"],
        caught.value.facts["max_message_bytes"],
    ) == (tp.topic, 3004, LARGE + 5, DEFAULT)
    assert "resume the restore" in caught.value.next_step
    there = recovery.cluster.high_watermarks([tp])[tp]
    assert there <= 3_004, "what stands before it may be there, it is not"
    assert committed(recovery, small.input, small.tail) == [None, None]
    assert restore.phase_of(recovery, ticket) is Phase.CREATED
    alter(recovery.cluster, {tp.topic: {"max.message.bytes": "6000000"}})
    assert written(recovery, ticket) == 3_005 + 3
    assert recovery.cluster.high_watermarks([tp])[tp] == 3_005, "nothing twice"
    restore.abandon(recovery, ticket)


@pytest.mark.fault("F85")
def test_what_brokers_kept_for_ever_is_kept_for_ever_by_brokers_that_keep_a_week(small: Small) -> None:
    recovery, topic = small.recovery, small.tail.topic
    with brokers_have(recovery, "log.retention.ms", "-1"):
        publish(small)
    saved_as = recovery.savepoints.latest()
    assert saved_as is not None
    image = saved_as.topic(topic)
    assert image is not None
    assert "retention.ms" not in image.config
    assert image.in_force["retention.ms"] == InForce(value="-1", source=SettingSource.DYNAMIC_BROKER)
    lose_state_and_group(small)
    planned = restore.plan(recovery, asked(recovery))
    (step,) = (one for one in planned.create if one.name == topic)
    assert step.final_config["retention.ms"] == "-1"
    (line,) = (one for one in planned.warnings if one.startswith("retention.ms=-1 is set on"))
    assert "604800000" in line
