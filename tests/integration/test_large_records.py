"""Records that the target does not take: named before anything is touched where the savepoint tells, else before they are sent."""

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
from streams_recovery.core.waiting import poll
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import opened, saved, written
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, lose_state_and_group, small_application
from tests.support.applications.topic_records import produce
from tests.support.kafka.consumers import committed

pytestmark = pytest.mark.kafka

DEFAULT = 1_048_588


@pytest.fixture
def small(own_bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """On a broker of its own: these tests change what all topics of a broker take."""
    with small_application(own_bootstrap, tmp_path) as found:
        yield found


@contextmanager
def brokers_take(recovery: RecoveryContext, size: int, topic: str) -> Iterator[None]:
    """Brokers whose topics take records of ``size`` bytes unless they say otherwise, and that have told so of ``topic``."""
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    brokers = [str(number) for number in admin.list_topics(timeout=30).brokers]

    def alter(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry("message.max.bytes", str(size), incremental_operation=operation)
        resources = [ConfigResource(ResourceType.BROKER, name, incremental_configs=[entry]) for name in brokers]
        for future in admin.incremental_alter_configs(resources).values():
            future.result(30)

    def told(limit: int) -> bool | None:
        return True if topic not in recovery.cluster.topic_names() or recovery.cluster.max_message_bytes(topic) == limit else None

    alter(AlterConfigOpType.SET)
    try:
        assert poll(lambda: told(size), seconds=60)
        yield
    finally:
        alter(AlterConfigOpType.DELETE)
        assert poll(lambda: told(DEFAULT), seconds=60)


def send(small: Small, *sizes: int) -> None:
    settings = {"bootstrap.servers": small.recovery.connection.bootstrap_servers, "message.max.bytes": 12_000_000, "log_level": 0}
    producer = Producer(settings)
    for size in sizes:
        producer.produce(small.changelog.topic, os.urandom(size), b"large", 0)
    assert producer.flush(60) == 0


@pytest.mark.fault("F32")
def test_a_savepoint_of_records_that_the_cluster_does_not_take_is_refused_before_anything_is_touched(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    with brokers_take(recovery, 11_000_000, tp.topic):
        send(small, 1_500_000, 10 << 20)
        publish(small)
    lose_state_and_group(small)
    before = recovery.cluster.topic_names(), list(recovery.repository.keys(""))
    with pytest.raises(Refused, match=f"will take {DEFAULT}") as caught:
        restore.plan(recovery, asked(recovery))
    assert caught.value.facts["kinds"] == ["record-size"]
    assert [finding.split()[0] for finding in caught.value.facts["findings"]] == [tp.topic]
    assert (recovery.cluster.topic_names(), list(recovery.repository.keys(""))) == before
    assert committed(recovery, small.input, small.tail) == [None, None]
    assert recovery.lock.holder() is None


@pytest.mark.fault("F32")
def test_one_large_record_among_many_stops_its_load_before_it_is_sent_and_the_load_goes_on_once_it_is_taken(small: Small) -> None:
    recovery, tp, large = small.recovery, small.changelog, 1_500_000
    with brokers_take(recovery, 2_000_000, tp.topic):
        produce(recovery, tp, 3_000)
        send(small, large)
        publish(small)
    lose_state_and_group(small)
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    restore.prepare(recovery, ticket)
    with pytest.raises(Refused) as caught:
        written(recovery, ticket)
    assert (
        caught.value.facts["topic"],
        caught.value.facts["archived_offset"],
        caught.value.facts["bytes"],
        caught.value.facts["max_message_bytes"],
    ) == (tp.topic, 3004, large + 5, DEFAULT)
    there = recovery.cluster.high_watermarks([tp])[tp]
    assert there <= 3_004, "what stands before it may be there, it is not"
    assert committed(recovery, small.input, small.tail) == [None, None]
    assert restore.phase_of(recovery, ticket) is Phase.CREATED
    with brokers_take(recovery, 2_000_000, tp.topic):
        assert written(recovery, ticket) == 3_005 + 3
        assert recovery.cluster.high_watermarks([tp])[tp] == 3_005, "nothing twice"
    restore.abandon(recovery, ticket)
