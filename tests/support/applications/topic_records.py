"""What tests do to the topics of an application: records, transactions, deletions, and what a damaged disk leaves of a log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.operations.context import RecoveryContext
from tests.support.kafka.records import read


def produce(recovery: RecoveryContext, tp: TopicPartition, count: int, **settings: object) -> None:
    """``count`` records with keys and values of their own."""
    producer = Producer({**recovery.connection.client_config(), **settings})
    for number in range(count):
        producer.produce(tp.topic, b"v%d" % number, b"k%d" % number, tp.partition)
    assert producer.flush(30) == 0


@contextmanager
def transaction(recovery: RecoveryContext) -> Iterator[Producer]:
    """A producer with a transaction under way, that is aborted unless it was ended."""
    producer = Producer({**recovery.connection.client_config(), "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer


def processed(
    recovery: RecoveryContext, written: Mapping[TopicPartition, Sequence[tuple[bytes, bytes | None]]], read: Mapping[TopicPartition, int]
) -> None:
    """One transaction of the application: what it has written, and up to where it has read. Returns when it is decided everywhere."""
    consumer = Consumer({**recovery.connection.client_config(), "group.id": recovery.application_id})
    with transaction(recovery) as producer:
        for tp, rows in written.items():
            for key, value in rows:
                producer.produce(tp.topic, value, key, tp.partition)
        offsets = [ClientPartition(tp.topic, tp.partition, offset) for tp, offset in read.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
    consumer.close()
    await_markers(recovery, list(written))


def aborted(recovery: RecoveryContext, tp: TopicPartition, count: int = 3) -> None:
    """So many records that nobody is ever given, and a marker behind them."""
    with transaction(recovery) as producer:
        for number in range(count):
            producer.produce(tp.topic, b"v", b"%d" % number, tp.partition)
        producer.flush(30)
        abort(recovery, producer, tp)


def abort(recovery: RecoveryContext, producer: Producer, tp: TopicPartition) -> None:
    """Abort the producer's transaction, until its marker is in this partition. The answer to the producer says only that the decision is logged; the
    coordinator writes the markers after it (KIP-98).
    """
    producer.abort_transaction(30)
    await_markers(recovery, [tp])


def await_markers(recovery: RecoveryContext, partitions: Sequence[TopicPartition]) -> None:
    """Until no transaction is open in these partitions: readers of committed records can read up to their ends."""
    deadline = time.monotonic() + 30
    while recovery.cluster.last_stable_offsets(partitions) != recovery.cluster.high_watermarks(partitions):
        assert time.monotonic() < deadline, f"a transaction in {partitions} is open for 30 s after it was decided"


def commit(recovery: RecoveryContext, offsets: Mapping[TopicPartition, int]) -> None:
    """Other committed offsets."""
    recovery.groups.set_offsets(
        recovery.application_id, {tp: CommittedOffset(offset=offset, metadata="", leader_epoch=None) for tp, offset in offsets.items()}
    )


def commit_with_epoch(recovery: RecoveryContext, tp: TopicPartition, offset: int, epoch: int | None) -> None:
    """An offset as consumers commit it, with the leader epoch of the records that they have read."""
    consumer = Consumer({**recovery.connection.client_config(), "group.id": recovery.application_id})
    consumer.commit(
        offsets=[ClientPartition(tp.topic, tp.partition, offset, leader_epoch=-1 if epoch is None else epoch)], asynchronous=False
    )
    consumer.close()


def delete_below(recovery: RecoveryContext, tp: TopicPartition, offset: int) -> None:
    """What retention does."""
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    for future in admin.delete_records([ClientPartition(tp.topic, tp.partition, offset)]).values():
        future.result(30)


def add_partitions(recovery: RecoveryContext, topic: str, count: int) -> None:
    """Give a topic as many partitions."""
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result(30)


def recreate(recovery: RecoveryContext, topic: str) -> tuple[str, str]:
    """Delete a topic and create it again under its name. Returns both ids."""
    before = recovery.cluster.describe_topics([topic])[topic]
    recovery.cluster.delete_topics([topic])
    policy = {"cleanup.policy": before.config["cleanup.policy"]}
    return before.topic_id, recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=policy).topic_id


def produce_at(recovery: RecoveryContext, topic: str, timestamp: int) -> None:
    """One record of this time."""
    producer = Producer({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    producer.produce(topic, b"v", b"k", 0, timestamp=timestamp)
    assert producer.flush(30) == 0


def without_the_last_batch(log: bytes) -> bytes:
    """Each batch begins with its offset (8 bytes) and the length of what follows (4)."""
    starts, at = [], 0
    while at < len(log):
        starts.append(at)
        at += 12 + int.from_bytes(log[at + 8 : at + 12], "big")
    return log[: starts[-1]]


def state_of(recovery: RecoveryContext, tp: TopicPartition) -> list[tuple[object, object]]:
    """Keys and values of all committed records of a log."""
    start, end = recovery.cluster.log_starts([tp])[tp], recovery.cluster.last_stable_offsets([tp])[tp]
    return [(row["key"], row["value"]) for batch in read(recovery.connection, tp, start, end) for row in batch.to_pylist()]
