"""Open transactions and transactional writers on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from streams_recovery.core.errors import BrokerUnavailable, NotFound
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.savepoint.writers import not_proven
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.transactions import Transactions

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def transactions(connection: KafkaConnection) -> Iterator[Transactions]:
    with Transactions(connection, timeout=20) as opened:
        yield opened


@pytest.fixture
def topic(connection: KafkaConnection) -> Iterator[str]:
    name = f"it.transactions_{uuid.uuid4().hex[:8]}"
    with KafkaCluster(connection, timeout=20) as cluster:
        cluster.create_topic(name, partitions=3, replication_factor=1, config={})
        yield name
        cluster.delete_topics([name])


@pytest.fixture
def producer(connection: KafkaConnection, topic: str) -> Iterator[Callable[[str], Producer]]:
    """Makes transactional producers; what they left open is aborted."""
    made: list[Producer] = []

    def make(name: str) -> Producer:
        transactional = Producer(connection.client_config(**{"transactional.id": f"{topic}-{name}"}))
        transactional.init_transactions(20)
        transactional.begin_transaction()
        made.append(transactional)
        return transactional

    yield make
    for transactional in made:
        transactional.abort_transaction(20)


def write(producer: Producer, topic: str, partition: int, count: int = 1) -> None:
    for _ in range(count):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(20) == 0


@pytest.mark.fault("F26")
def test_the_owner_of_an_open_transaction_is_named(
    transactions: Transactions, connection: KafkaConnection, topic: str, producer: Callable[[str], Producer]
) -> None:
    write(Producer(connection.client_config()), topic, 1, 4)
    opened = producer("one")
    write(opened, topic, 1, 3)
    time.sleep(1.1)

    found = transactions.blocking([TopicPartition(topic, number) for number in range(3)])
    assert [(item.tp.topic, item.tp.partition, item.start_offset, item.transactional_id, item.state) for item in found] == [
        (topic, 1, 4, f"{topic}-one", "Ongoing")
    ]
    assert found[0].producer_id >= 0
    assert found[0].age_seconds is not None
    assert 1 <= found[0].age_seconds < 60
    assert f"{topic}-1: producer {found[0].producer_id} ({topic}-one), open for 1 s, from offset 4" in str(found[0])


def test_age_is_told_by_the_given_clock(connection: KafkaConnection, topic: str, producer: Callable[[str], Producer]) -> None:
    write(producer("one"), topic, 0)
    with Transactions(connection, timeout=20, now=lambda: time.time() + 7200) as later:
        (found,) = later.blocking([TopicPartition(topic, 0)])
    assert found.age_seconds is not None
    assert 7200 <= found.age_seconds < 7260


def test_several_transactions_come_in_the_order_in_which_they_block(
    transactions: Transactions, topic: str, producer: Callable[[str], Producer]
) -> None:
    first, second = producer("first"), producer("second")
    write(second, topic, 2)
    write(first, topic, 2)
    write(first, topic, 0)
    found = transactions.blocking([TopicPartition(topic, number) for number in range(3)])
    assert [(item.tp.partition, item.transactional_id) for item in found] == [
        (0, f"{topic}-first"),
        (2, f"{topic}-second"),
        (2, f"{topic}-first"),
    ]


def test_a_decided_transaction_blocks_nothing(transactions: Transactions, topic: str, producer: Callable[[str], Producer]) -> None:
    opened = producer("one")
    write(opened, topic, 0)
    opened.commit_transaction(20)
    opened.begin_transaction()
    deadline = time.monotonic() + 10
    while transactions.blocking([TopicPartition(topic, 0)]):
        assert time.monotonic() < deadline
    assert transactions.blocking([TopicPartition(topic, 0)]) == ()


def test_writers_are_proven_transactional_or_not(
    transactions: Transactions, connection: KafkaConnection, topic: str, producer: Callable[[str], Producer]
) -> None:
    silent, transactional, mixed = (TopicPartition(topic, number) for number in range(3))
    opened = producer("one")
    write(opened, topic, 1)
    write(opened, topic, 2)
    write(Producer(connection.client_config(**{"enable.idempotence": True})), topic, 2)

    writers = transactions.transactional_writers([silent, transactional, mixed])
    ends = dict.fromkeys(writers, 9)
    assert not_proven(writers, ends, {}, state=[silent, transactional, mixed]) == (silent, mixed)
    assert (writers[silent].transactional, writers[silent].other) == ((), ())
    assert len(writers[mixed].transactional) == len(writers[mixed].other) == 1

    opened.commit_transaction(20)
    opened.begin_transaction()
    deadline = time.monotonic() + 10
    while transactions.blocking([transactional]):
        assert time.monotonic() < deadline
    # Between its transactions a writer is still known for what it is.
    assert not_proven(transactions.transactional_writers([transactional]), ends, {}, state=[transactional]) == ()


def test_a_plain_producer_is_remembered_by_nobody(transactions: Transactions, connection: KafkaConnection, topic: str) -> None:
    write(Producer(connection.client_config()), topic, 0)
    found = transactions.transactional_writers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert (found.transactional, found.other) == ((), ())


def test_partitions_that_do_not_exist_are_an_error(transactions: Transactions, topic: str) -> None:
    with Transactions(transactions._clients.connection, timeout=2) as hasty, pytest.raises(NotFound, match=f"{topic}-absent"):
        hasty.transactional_writers([TopicPartition(topic, 0), TopicPartition(f"{topic}-absent", 0)])


def test_a_broker_that_is_down_is_said_in_one_sentence() -> None:
    nobody = KafkaConnection.from_extra({"bootstrap.servers": "127.0.0.1:1"}, where="nobody")
    with Transactions(nobody, timeout=1.0) as opened, pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1 within 1 s"):
        opened.blocking([TopicPartition("t", 0)])
